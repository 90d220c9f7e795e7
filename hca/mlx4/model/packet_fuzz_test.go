package model

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/mlx4/prm"
)

// FuzzPacket checks that any frame can be parsed, that checksums that are filled in are found right, and that nothing
// else in the frame changes.
func FuzzPacket(f *testing.F) {
	ipv4 := append(make([]byte, 12), 8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	f.Add(append(ipv4, make([]byte, 20)...))
	f.Add(append(append(make([]byte, 12), 0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 1), make([]byte, 40)...))
	f.Add(make([]byte, ethSize))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < ethSize {
			return
		}
		p := parsePacket(frame)
		r := rss{log: maxRSSLog, isToeplitz: true, ipv4: true, tcp4: true, udp4: true, ipv6: true, tcp6: true,
			udp6: true}
		qpn, _ := r.target(&p)
		require.Less(t, qpn, uint32(1<<maxRSSLog))
		before := bytes.Clone(frame)
		p.fillChecksums(true, true)
		changed := 0
		for i := range frame {
			if frame[i] != before[i] {
				changed++
			}
		}
		assert.LessOrEqual(t, changed, 4, "two checksums")
		flags, checksum := p.classify()
		assert.Equal(t, p.isIPv4 || p.isIPv6, flags&prm.CQEIPChecksumOK != 0)
		assert.Equal(t, p.isTCP(), flags&prm.CQETCP != 0)
		assert.Equal(t, p.isUDP(), flags&prm.CQEUDP != 0)
		if p.isTCP() || p.isUDP() {
			assert.Equal(t, prm.CQEL4ChecksumOK, checksum)
		}
		_, _ = parseLSO(frame)
	})
}

// FuzzLargeSend checks that the segments of any large send have the right lengths and checksums.
func FuzzLargeSend(f *testing.F) {
	header := append(make([]byte, 12), 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	header = append(append(header, make([]byte, 12)...), 5<<4, 0xff, 0, 0, 0, 0, 0, 0)
	f.Add(header, uint16(100), uint16(1000))
	f.Fuzz(func(t *testing.T, header []byte, off, size uint16) {
		l, ok := parseLSO(header)
		if !ok || len(header) > maxLSOHeader {
			return
		}
		l.payloadSize = int(off) + int(size)
		s := append(bytes.Clone(header), make([]byte, size%uint16(maxFrame-maxLSOHeader))...)
		l.adjust(s, 3, int(off))
		p := parsePacket(s)
		require.Len(t, p.payload, len(s)-l.tcp)
		_, checksum := p.classify()
		assert.Equal(t, p.isTCP(), checksum == prm.CQEL4ChecksumOK)
	})
}
