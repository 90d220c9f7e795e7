package main

import (
	"cmp"
	"strings"
)

// A subject is an adapter to judge.
type subject struct {
	title   string
	space   string     // suite of Debian whose user space sees the kit's adapter; "": a virtual machine
	kernel  string     // suite of Debian with the kernel; "": that of this machine
	modules []string   // of the kernel
	setup   [][]string // commands of the guest that make the device
	device  string
	expect  string   // expectation file of the certifier, in this repository
	args    []string // of the certifier
}

// subjects are the adapters, by the name of their folder.
var subjects = map[string]subject{
	"rxe-debian12": {title: "Soft-RoCE of Linux, Debian 12", modules: []string{"veth"}, setup: withPeer, device: "rxe1",
		expect: "test/linux/testdata/certify.json", args: peerArgs},
	"rxe-debian13": {title: "Soft-RoCE of Linux, Debian 13", kernel: "trixie", modules: []string{"veth"},
		setup: withPeer, device: "rxe1", expect: "test/linux/testdata/certify.json", args: peerArgs},
	"librxe-debian12": {title: "User library of Soft-RoCE, Debian 12", space: "bookworm"},
	"librxe-debian13": {title: "User library of Soft-RoCE, Debian 13", space: "trixie"},
	"librxe-sid":      {title: "User library of Soft-RoCE, Debian sid", space: "sid"},
	"librxe-extended-sid": {title: "User library of Soft-RoCE, Debian sid, extended calls", space: "sid",
		args: []string{"--set", "calls=extended"}},
}

// withPeer makes a Soft-RoCE device on one end of a pair of interfaces, and a network namespace with the other, in
// which the certifier is the peer on the wire.
var withPeer = commands(`
	ip link add v0 type veth peer name v1
	ip netns add peer
	ip link set v1 netns peer mtu 9000
	ip address add 10.9.0.1/24 dev v0
	ip link set v0 mtu 9000 up
	ip netns exec peer ip address add 10.9.0.2/24 dev v1
	ip netns exec peer ip address add 10.9.0.3/24 dev v1
	ip netns exec peer ip link set v1 up
	rdma link add rxe1 type rxe netdev v0`)

// peerArgs are the arguments of the certifier for withPeer. Linux's Soft-RoCE does not send multicast datagrams to
// itself, and each case would wait for them.
var peerArgs = []string{"--set", "wire=10.9.0.2+10.9.0.3", "--set", "wire-network=/run/netns/peer",
	"--exclude", "mcast.*", "--exclude", "claims.works.multicast"}

// commands returns the commands of a text, one a line.
func commands(text string) (list [][]string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			list = append(list, words)
		}
	}
	return list
}

// command returns the command line of the certifier. The cases of the access layer judge the kit.
func (s *subject) command(json, junit, cases string) []string {
	args := []string{certifier, "run", "--device", cmp.Or(s.device, "rxe_ddk0"), "--json", json, "--junit", junit,
		"--timeout", "20s",
		"--exclude", "al.*", "--exclude", "cm.*"}
	if cases != "" {
		args = append(args, "--case", cases)
	}
	return append(args, s.args...)
}
