package tsharktest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// LinkType is the protocol that the packets of a capture file begin with, by libpcap's numbers.
type LinkType uint32

const (
	Ethernet LinkType = 1
	ERF      LinkType = 197 // extensible record format: the one way to have an InfiniBand LRH in a capture file
)

// pcap is a capture file in libpcap's classic format: little-endian, every packet whole and of time 0.
func pcap(link LinkType, packets [][]byte) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4) // times in microseconds
	b = le.AppendUint16(b, 2)             // version 2.4
	b = le.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // time zone and accuracy, not in use
	b = le.AppendUint32(b, 1<<18)     // no packet is longer
	b = le.AppendUint32(b, uint32(link))
	for _, p := range packets {
		b = append(b, make([]byte, 8)...)
		b = le.AppendUint32(b, uint32(len(p))) // bytes in the file
		b = le.AppendUint32(b, uint32(len(p))) // bytes on the wire
		b = append(b, p...)
	}
	return b
}

// Write makes a capture file of the packets, in a folder that goes with the test, and gives its path.
func Write(t testing.TB, link LinkType, packets [][]byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "packets.pcap")
	require.NoError(t, os.WriteFile(file, pcap(link, packets), 0o600))
	return file
}
