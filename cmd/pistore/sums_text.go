package main

import (
	"fmt"
	"math/big"
	"strings"
)

// sumColumns are the widths of the columns of numbers, and nameColumn that of
// what they are of.
var sumColumns = [...]int{7, 10, 8, 14, 11}

const nameColumn = 28

func printSumsHead(p *paper, what string) {
	p.line(dim("  "+pad(what, nameColumn)), dim(sumsRow("rows", "input", "output", "cache read", "cost")))
}

// printSums prints one row of a table of sums. A name that does not fit stands
// on a line of its own.
func printSums(p *paper, style func(string) span, name string, rows int64, s sumsView) {
	name = brief(name, columns-2)
	if width(name) > nameColumn {
		p.line(plain("  " + name))
		name = ""
	}
	p.line(plain("  "+pad(name, nameColumn)), style(sumsRow(
		grouped(fmt.Sprint(rows)), grouped(string(s.Input)), grouped(string(s.Output)), grouped(string(s.CacheRead)), costWords(s.Cost.Total),
	)))
}

// sumsRow sets numbers below each other. One that needs more room takes it from
// those before it, as far as they have any.
func sumsRow(cells ...string) string {
	row, right := "", 0
	for i, cell := range cells {
		right += sumColumns[i]
		row += padLeft(" "+cut(cell, 20), max(right-width(row), 0))
	}
	return row
}

// costWords shows an amount of money to a millionth, rounded; JSON and CSV have
// all digits.
func costWords(n number) string {
	amount, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return string(n)
	}
	text := strings.TrimRight(strings.TrimRight(amount.FloatString(6), "0"), ".")
	if text == "0" && amount.Sign() != 0 {
		return "< 0.000001"
	}
	return grouped(text)
}

func printUnusable(p *paper, n int64) {
	if n > 0 {
		p.line(yellow("  " + count(n, "row has", "rows have") + " a value that counts as unknown"))
	}
}
