// Package topology describes InfiniBand subnets: nodes, their ports, and the links between them. It reads and writes
// the net format of ibsim, which is also the format that ibnetdiscover prints, and generates fat trees, tori and
// dragonflies.
//
//	t, err := topology.ReadFile("cluster.net")
//	…
//	t, err := topology.FatTree{Down: []int{4, 4}, Up: []int{1, 2}}.Generate()
//	err = t.Write(os.Stdout)
//
// # The net format
//
// A file has one record per node: a header line, and one line for each connected port.
//
//	vendid=0x2c9
//	devid=0x5a44
//	sysimgguid=0x100000
//	caguid=0x100000
//	Ca 1 "H1"              # "first host"
//	[1] "S1"[3]            # 4xQDR
//
// Switch, Ca (or Hca) and Rt start a record; a number of ports and a quoted id follow. The text in quotes after the
// number sign is the node description; without one, the id is the description. A port line has the port, the id and
// the port of the neighbor, and optionally the rate of the link: w=, s= and e= with the bits of LinkWidthEnabled,
// LinkSpeedEnabled and LinkSpeedExtEnabled, or a text such as 4xEDR after the number sign. A link may appear at one of
// its ends or at both.
//
// The lines switchguid=, caguid= and rtguid= set the GUID of the next node of the kind; the nodes after it are numbered
// upwards. A GUID in parentheses after the local port is that of the port. include "file" reads another file. The
// console commands (do), the modules and the port aliases of ibsim are not supported: an error names the line.
//
// A Topology is a plain value. Functions may be called concurrently for different values.
package topology
