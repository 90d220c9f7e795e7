package main

import (
	"fmt"
	"strings"
)

// table returns the page.
func table(list []module) string {
	var b strings.Builder
	b.WriteString(`# Licenses

This page is for people who ship the kit or a program that uses it. It lists every module that go.mod requires, with its
license as an SPDX expression. "Shipped" modules are part of packages or programs of the kit on Linux, macOS or Windows;
"tests only" modules are not. "With build tag" modules are part of programs that are built with the tag
` + "`usb`" + `, which also use libusb (LGPL-2.1-or-later, a shared library of the system).
The packages of ` + "`ci`, `wire` and `mad`" + ` use no module at all.

The page is generated: ` + "`go generate ./tools/licenses`" +
		`. A test fails when it is stale, when a module has no license file or an unknown
license, and when a module with a reciprocal license is used outside of tests.

| module | version | license | use | used by |
|---|---|---|---|---|
`)
	for _, m := range list {
		by := m.by
		if len(by) > 4 {
			by = append(by[:3:3], "others") // a number would change with each package
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.path, m.version, m.license, useNames[m.use],
			strings.Join(by, ", "))
	}
	return b.String()
}
