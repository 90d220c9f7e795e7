package main

import (
	"cmp"
	"slices"

	"ciddk/test/linux/guest"
)

// A subject is an adapter to judge.
type subject struct {
	title   string
	space   string     // suite of Debian whose user space sees the kit's adapter; "": a virtual machine
	kernel  string     // suite of Debian with the kernel; "": that of this machine
	modules []string   // of the kernel
	setup   [][]string // commands of the guest that make the device
	device  string
	args    []string // of the certifier
}

// subjects are the adapters, by the name of their folder.
var subjects = map[string]subject{
	"rxe-debian12": {title: "Soft-RoCE of Linux, Debian 12", modules: []string{"veth"}, setup: guest.WirePeer,
		device: "rxe1", args: peerArgs},
	"rxe-wire-debian12": {title: "Soft-RoCE of Linux, Debian 12: the wire", modules: []string{"veth"},
		setup: guest.WirePeer, device: "rxe1", args: append(slices.Clone(peerArgs), "--case", "wire.*")},
	"rxe-debian13": {title: "Soft-RoCE of Linux, Debian 13", kernel: "trixie", modules: []string{"veth"},
		setup: guest.WirePeer, device: "rxe1", args: peerArgs},
	"librxe-debian12": {title: "User library of Soft-RoCE, Debian 12", space: "bookworm"},
	"librxe-debian13": {title: "User library of Soft-RoCE, Debian 13", space: "trixie"},
	"librxe-sid":      {title: "User library of Soft-RoCE, Debian sid", space: "sid"},
	"librxe-extended-sid": {title: "User library of Soft-RoCE, Debian sid, extended calls", space: "sid",
		args: []string{"--set", "calls=extended"}},
}

// peerArgs are the arguments of the certifier for guest.WirePeer. Linux's Soft-RoCE does not send multicast datagrams
// to itself, and each case would wait for them.
var peerArgs = append([]string{"--exclude", "mcast.*", "--exclude", "claims.works.multicast"}, guest.WireArgs...)

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
