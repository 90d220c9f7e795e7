package main

import "ciddk/validate"

// drivers are those linked into this program, the default first.
func drivers() []validate.Driver {
	return []validate.Driver{
		{Name: "reference", Description: "the kit's software HCA", Links: []string{"udp", "direct", "network"}, Open: openReference, CheckValues: checkValues,
			Settings: map[string]string{
				"port":       "UDP port of the link udp, 1 to 65535; RoCEv2's own if left out",
				"ip":         "version of IP of the links udp and network, 4 or 6; 4 if left out",
				"sources":    "UDP ports that each HCA of the link udp sends from, 1 to 64; 1 if left out",
				"privileged": "1: the link udp sees the IPv4 header and checks the whole ICRC (Linux, CAP_NET_RAW); 0 if left out",
			}},
	}
}
