// Package direct is an InfiniBand link within a process, for tests and for the speed of memory. The HCAs on a Link pass
// each other packets without encoding them.
//
//	link := direct.NewLink()
//	port, err := direct.New(link, direct.Config{})
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//
// A Port has LIDs, a P_Key table, a GUID table and a subnet management agent. Without a subnet manager it comes up
// Active with a LID of its own choice; Config.State makes it wait for one.
//
// Link.End returns a place on the link at which no HCA sits. Its owner sends and receives whole InfiniBand packets in
// bytes.
package direct
