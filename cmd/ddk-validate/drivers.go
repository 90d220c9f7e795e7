package main

import "ciddk/validate"

// drivers returns the drivers of this program, the default first.
func drivers() []validate.Driver {
	return []validate.Driver{
		{
			Name:        "reference",
			Description: "the kit's software HCA (network: link/sim, simulated in the process)",
			Links:       []string{"udp", "direct", "network", "fabric"},
			Open:        openReference,
			CheckValues: checkValues,
			Settings: map[string]string{
				"port":     "UDP port of the link udp, 1 to 65535; default: that of RoCEv2, 4791",
				"ip":       "IP version of the links udp and network, 4 or 6; default: 4",
				"loopback": "direct: packets between the HCAs take no socket, on the link udp; default: wire",
				"sources":  "number of UDP source ports of each HCA on the link udp, 1 to 64; default: 1",
				"agents": "what answers SMPs on the link direct: kit (through CA.LocalMAD), hardware, or passing " +
					"(hardware that passes up what it has answered); default: kit",
				"fabric": "name of a fabric that ddk-fabric serves, for the link fabric; default: one of its own, " +
					"with a switch between the HCAs",
				"nodes": "nodes of the two HCAs in that fabric; default: h1,h2",
				"odd": "1: two ports, several P_Keys, LIDs and GIDs, and small limits, on the links direct and " +
					"network; default: 0",
				"claims": "few: the HCAs claim no capability that has a verb, on the links direct and network; " +
					"default: all",
				"legal": "a seed that draws limits, sizes and timing of a correct and unusual adapter, on the links " +
					"direct and network; default: the kit's own",
				"privileged": "1: check IPv4 header and whole ICRC on the link udp (Linux, CAP_NET_RAW); default: 0",
			},
		},
		mlx4Driver(),
	}
}
