// Package session is the typed view of one session: messages, lanes, facts, the
// tree, and the projection of a conversation into a request. It works over any
// Storage and imports the root, registers and the standard library only.
package session
