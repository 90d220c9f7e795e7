package main

import "ciddk/validate"

// drivers are those linked into this program, the default first.
func drivers() []validate.Driver {
	return []validate.Driver{
		{Name: "reference", Description: "the kit's software HCA", Links: []string{"udp", "direct"}, Open: openReference},
	}
}
