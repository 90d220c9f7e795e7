package guest

import "strings"

// WirePeer are the commands that make a Soft-RoCE device, rxe1, on one end of a pair of interfaces, and a network
// namespace with the other, in which the certifier is the peer on the wire. They need the module veth.
var WirePeer = commands(`
	ip link add v0 type veth peer name v1
	ip netns add peer
	ip link set v1 netns peer mtu 9000
	ip address add 10.9.0.1/24 dev v0
	ip link set v0 mtu 9000 up
	ip netns exec peer ip address add 10.9.0.2/24 dev v1
	ip netns exec peer ip address add 10.9.0.3/24 dev v1
	ip netns exec peer ip link set v1 up
	rdma link add rxe1 type rxe netdev v0`)

// WireArgs are the arguments with which the certifier judges that device, with the cases of the wire.
var WireArgs = []string{"--set", "wire=10.9.0.2+10.9.0.3", "--set", "wire-network=/run/netns/peer"}

// commands returns the commands of a text, one a line.
func commands(text string) (list [][]string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}
