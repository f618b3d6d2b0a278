// Package page writes a session as one HTML document that needs nothing else:
// tree, transcript, timeline, cost. It imports the root, registers, ledger and
// session.
//
// All text of a session is untrusted. It reaches the document through
// html/template alone, and the document's policy allows no script and no style
// but its own, no network, and no images but those that it holds itself.
package page
