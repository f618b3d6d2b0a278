// Package registers declares every register namespace once: address, value,
// codec, checks and lifetime. It is data without behaviour and imports the root
// and the standard library only.
package registers
