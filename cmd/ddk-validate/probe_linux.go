package main

import (
	"os"
	"strconv"
	"strings"
)

// socketDrops returns the number of datagrams that the kernel has dropped at full socket buffers in the calling
// thread's network namespace.
func socketDrops(v6 bool) uint64 {
	if v6 {
		b, _ := os.ReadFile("/proc/thread-self/net/snmp6") // does not exist without IPv6
		return snmp6Counter(string(b), "Udp6RcvbufErrors")
	}
	b, _ := os.ReadFile("/proc/thread-self/net/snmp")
	return udpCounter(string(b), "RcvbufErrors")
}

// udpCounter returns a counter of UDP in the format of /proc/net/snmp: a line of names, then a line of values.
func udpCounter(text, name string) uint64 {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range min(len(names), len(fields)) {
			if names[i] == name {
				n, _ := strconv.ParseUint(fields[i], 10, 64)
				return n
			}
		}
	}
	return 0
}

// snmp6Counter returns a counter in the format of /proc/net/snmp6: a name and a value in each line.
func snmp6Counter(text, name string) uint64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, _ := strconv.ParseUint(f[1], 10, 64)
			return n
		}
	}
	return 0
}
