package main

import "ciddk/validate"

// drivers are those linked into this program, the default first.
func drivers() []validate.Driver {
	return []validate.Driver{
		{Name: "reference", Description: "the kit's software HCA", Links: []string{"udp", "direct"}, Open: openReference,
			Settings: map[string]string{
				"port": "UDP port of the link udp, 1 to 65535; RoCEv2's own if left out",
				"ip":   "version of IP of the link udp, 4 or 6",
			}},
	}
}
