// Package fuzz holds the fuzz targets that work through exported API, and what
// they have found under testdata/fuzz; those of an internal decoder stand beside
// it. Its tests may import every package below the command.
//
// Each target holds a property of whatever the fuzzer makes up: that errors are
// typed and say where, that what is accepted comes out as it went in, and that
// memory stays in proportion to the input. One is run by
//
//	go test ./fuzz -run '^$' -fuzz '^FuzzOpenJSONL$' -fuzztime 10m
//
// and an input that fails is written to testdata/fuzz, from where each later
// go test runs it.
package fuzz
