// Package pcapng writes what passes the ports of an HCA to pcapng files, for Wireshark and tshark.
//
//	tap := new(capture.Tap)
//	port, err = capture.New(port, tap)
//	…
//	hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
//	…
//	stop, err := pcapng.ToFile("run.pcapng", tap)
//	…
//	err = stop()
//
// Each port is an interface of the file, named by the node GUID of its HCA and its number. Each packet has its
// direction (frame.packet_flags_direction), its time in nanoseconds and, if it was dropped, the reason as a comment
// (frame.comment). Two ends of a link in one file show each packet twice, as sent and as received: one that shows once
// was lost between them. Filter one end with frame.interface_name.
//
// Ethernet ports are written as raw IP (LINKTYPE_RAW): the link has no Ethernet header of its own to show. InfiniBand
// ports are written as ERF records of type 21 (LINKTYPE_ERF), since Wireshark does not read LINKTYPE_INFINIBAND.
//
// Wireshark guesses at payloads, and may report a message as a malformed one of RPC over RDMA, NVMe, iSER and others.
// Switch these protocols off (Analyze, Enabled Protocols; tshark --disable-protocol rpcordma). It recognizes RoCEv2 by
// UDP port 4791; decode another port as InfiniBand (tshark -d udp.port==N,infiniband).
package pcapng
