package jsonl

import (
	"fmt"
	"strings"

	"pistore"
)

// header4 is the first line of a file of format 4.
type header4 struct {
	info    pistore.Info
	nextSeq pistore.Seq // 0: not stored
	// snapshotRows is how many rows follow as one snapshot, a line each. There is
	// no telling where in it a cut fell, as there is behind it: a row that
	// survived need not have been true together with those before it alone.
	snapshotRows int64
	summed       bool
	extra        []member // members that are not known here
}

const sumsCRC32C = `"crc32c"`

// readHeader4 reads the header of a file of format 4. It tells of a sum that
// does not hold before anything that the line says.
func readHeader4(line []byte) (h header4, err error) {
	comma, sum, holds := checkSum(line)
	if sum && !holds {
		return h, fmt.Errorf("%w: the sum of the header does not hold", pistore.ErrCorrupt)
	}
	text, _, err := readObject(line)
	if err != nil {
		return h, fmt.Errorf("%w: the header is no JSON object: %w", pistore.ErrCorrupt, err)
	}
	seen := map[string]pistore.JSON{}
	for m := range members(text) {
		name := m.text()
		switch name {
		case "v", "kind", "id", "storageVersion", "createdAt", "cwd", "generation", "sums", "sum",
			"parentSessionId", "legacyParentSessionPath", "nextSeq", "snapshotRows":
		default:
			h.extra = append(h.extra, member{strings.Clone(m.name), strings.Clone(m.value)})
		}
		if _, twice := seen[name]; twice {
			return h, fmt.Errorf("%w: the header has two members named %s", pistore.ErrCorrupt, show(name))
		}
		seen[name] = pistore.JSON(m.value)
	}
	if v := seen["v"]; v != "4" {
		return h, fmt.Errorf("%w: a session file of format %.20q", pistore.ErrNewerVersion, string(v))
	}
	switch sums := seen["sums"]; {
	case seen["kind"] != `"header"`:
		return h, fmt.Errorf("%w: the kind of the header is %s", pistore.ErrCorrupt, shownValue([]byte(seen["kind"])))
	case sums == "" && (sum || seen["sum"] != ""):
		return h, fmt.Errorf("%w: the header has a sum and declares none", pistore.ErrCorrupt)
	case sums == "":
	case sums != sumsCRC32C:
		return h, fmt.Errorf("%w: sums of kind %s", pistore.ErrNewerVersion, shownValue([]byte(sums)))
	case !sum || comma <= 0:
		return h, fmt.Errorf("%w: the header declares sums and has none", pistore.ErrCorrupt)
	default:
		h.summed = true
	}
	return h, h.read(seen)
}

// read takes over what the members say.
func (h *header4) read(seen map[string]pistore.JSON) error {
	bad := func(name string) error {
		return fmt.Errorf("%w: the %s of the header is %s", pistore.ErrCorrupt, name, shownValue([]byte(seen[name])))
	}
	for name, to := range map[string]*string{
		"cwd": &h.info.CWD, "generation": &h.info.Generation, "legacyParentSessionPath": &h.info.LegacyParentPath,
		"id": (*string)(&h.info.ID), "parentSessionId": (*string)(&h.info.ParentSessionID),
	} {
		value := seen[name]
		if value == "" || value == "null" && name != "id" {
			continue
		}
		s, ok := value.Text()
		if !ok {
			return bad(name)
		}
		*to = strings.Clone(s)
	}
	version, ok := wholeNumber([]byte(seen["storageVersion"]))
	switch {
	case !ok || version < 1:
		return bad("storageVersion")
	case version > pistore.StorageVersion:
		return fmt.Errorf("%w: storage version %d", pistore.ErrNewerVersion, version)
	}
	created, ok := wholeNumber([]byte(seen["createdAt"]))
	if !ok {
		return bad("createdAt")
	}
	if next := seen["nextSeq"]; next != "" {
		n, ok := wholeNumber([]byte(next))
		if !ok && next != "9007199254740992" { // 2^53: every seq was given
			return bad("nextSeq")
		}
		if !ok {
			n = pistore.MaxSeq + 1
		}
		h.nextSeq = pistore.Seq(n)
	}
	if rows := seen["snapshotRows"]; rows != "" {
		if h.snapshotRows, ok = wholeNumber([]byte(rows)); !ok {
			return bad("snapshotRows")
		}
	}
	h.info.StorageVersion, h.info.CreatedAt, h.info.Format = int(version), pistore.UnixMS(created), string(V4)
	err := h.info.Check()
	if err == nil && h.info.ID == "" {
		return bad("id")
	}
	if err != nil {
		return fmt.Errorf("%w: the header cannot be used: %w", pistore.ErrCorrupt, err)
	}
	return nil
}
