"""The store of store.py with three defects, for the kit to find."""

import store


class Broken(store.Store):
    def apply(self, writes, expect):
        # 1. Of the preconditions only the first is tested.
        return super().apply(writes, expect[:1])

    def registers(self, p):
        # 2. The prefix is a pattern, in which case does not matter.
        namespace, prefix = store.text_of(p.get("namespace")), store.text_of(p.get("prefix"))
        rows = self.db.execute(
            "SELECT key, value, seq FROM registers WHERE namespace = ? AND key LIKE ? ORDER BY key", (namespace, prefix + "%")
        )
        return '{"registers":[' + ",".join(store.register_json(namespace, *row) for row in rows) + "]}"

    def scan_entries(self, p):
        # 3. The limit comes before the filter.
        rows = self.scan("entries", p).fetchall()[: store.int_of(p.get("limit")) or None]
        return store.entries_json(row for row in rows if store.keeps(row, p))


class BrokenServer(store.Server):
    store_class = Broken


if __name__ == "__main__":
    BrokenServer().run()
