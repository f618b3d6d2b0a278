// Package disk is the file system as a file backend sees it: a small interface,
// the operating system's, and two forms for tests, one that fails calls by
// choice and one that forgets at a power cut what was not synced. It imports the
// standard library only.
package disk
