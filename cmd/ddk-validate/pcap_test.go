package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// captureCases returns cases that put every kind of RC packet on the link and lose some.
func captureCases() *validate.Catalog {
	one := func(id string, impair bool, run func(*validate.T)) validate.Case {
		return validate.Case{
			ID: "pcap." + id, Title: id, Requirements: []string{"SAS-0-01"}, Feature: validate.FeatureRC, Run: run,
			Timeout: 5 * time.Second, Needs: validate.Needs{Impair: impair},
		}
	}
	return validate.MustCatalog(validate.Suite{Cases: []validate.Case{
		one("clean", false, func(t *validate.T) {
			p := kit.RC(t)
			p.A.Exchange(p.B, 5000)
			p.B.Exchange(p.A, 3)
		}),
		one("datagram", false, func(t *validate.T) {
			p := kit.UD(t)
			p.A.Exchange(p.B, 500)
		}),
		one("lossy", true, func(t *validate.T) {
			t.Impair(validate.Impairment{Seed: 3, Drop: 0.2, Corrupt: 0.1})
			p := kit.RC(t, kit.AckTime(14))
			for range 5 {
				p.A.Exchange(p.B, 20000)
			}
		}),
		one("fails", false, func(t *validate.T) {
			p := kit.RC(t)
			p.A.Exchange(p.B, 10)
			t.Failf("this case", "no failure", "a failure, which keeps the capture")
		}),
	}})
}

// captured is a packet read from a file.
type captured struct {
	ib       bool
	data     []byte // from the IP header or the LRH
	comments []string
}

// transport returns the bytes from the BTH to the ICRC, and the ICRC computed over the packet as in IBTA volume 1,
// 7.8.1 and annex A17. It uses the CRC of the standard library and nothing of package wire.
func (c captured) transport(t *testing.T) (bth []byte, icrc uint32) {
	t.Helper()
	b := append([]byte(nil), c.data...)
	pseudo := []byte{255, 255, 255, 255, 255, 255, 255, 255}
	at := 0
	switch {
	case c.ib && b[1]&3 == 3:
		copy(b, pseudo)
		b = b[:len(b)-2]
		b[8] |= 0x0f
		copy(b[9:], []byte{255, 255, 255})
		b[15] = 255
		at, pseudo = 48, nil
	case c.ib:
		b = b[:len(b)-2]
		b[0] |= 0xf0
		at, pseudo = 8, nil
	case b[0]>>4 == 4:
		for _, i := range []int{1, 8, 10, 11, 26, 27} {
			b[i] = 255
		}
		at = 28
	default:
		b[0] |= 0x0f
		copy(b[1:], []byte{255, 255, 255})
		b[7] = 255
		b[46], b[47] = 255, 255
		at = 48
	}
	require.Greater(t, len(b), at+15)
	bth = append([]byte(nil), b[at:]...)
	b[at+4] = 255
	return bth, crc32.ChecksumIEEE(append(pseudo, b[:len(b)-4]...))
}

// readCapture reads a file with the reader of gopacket. tshark then checks packets, interfaces and comments
// independently.
func readCapture(t *testing.T, path string) (list []captured) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	require.NoError(t, err)
	for {
		data, ci, o, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		i, err := r.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		c := captured{ib: i.LinkType == pcapfile.ERFLinkType, data: data, comments: o.Comments}
		if c.ib {
			c.data = data[pcapfile.ERFHeaderLen:]
		}
		list = append(list, c)
	}
}

func TestPcap(t *testing.T) {
	testenv.Long(t)
	d := drivers()[0]
	for _, tt := range []struct {
		name, link string
		values     map[string]string
		tshark     bool // checked with tshark, which needs RoCEv2's UDP port; the IPv6 target may use another
	}{
		{"udp4", "udp", nil, true},
		{"udp6", "udp", map[string]string{"ip": "6"}, false},
		{"direct", "direct", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			p := validate.Plan{Catalog: captureCases(), Driver: d, Setting: validate.Setting{
				Profile: "full", PcapDir: dir, PcapAll: true,
				Options: validate.Options{Seed: 1, Link: tt.link, Run: os.Getpid(), Values: tt.values},
			}}
			r, err := p.Run(t.Context())
			require.NoError(t, err)
			for _, x := range r.Results {
				want := validate.Pass
				if x.Case == "pcap.fails" {
					want = validate.Fail
				}
				assert.Equal(t, want, x.Status, "%s: %+v", x.Case, x.Failures)
				assert.Equal(t, filepath.Join(dir, x.Case+".pcapng"), x.Capture)
				list := readCapture(t, x.Capture)
				require.NotEmpty(t, list, x.Case)
				for i, c := range list {
					bth, icrc := c.transport(t)
					assert.Equal(
						t, binary.LittleEndian.Uint32(bth[len(bth)-4:]), icrc, "%s: ICRC of packet %d", x.Case, i+1,
					)
				}
				if tt.tshark {
					fields := []string{
						"infiniband.bth.opcode",
						"infiniband.bth.psn",
						"frame.interface_name",
						"frame.packet_flags_direction",
						"frame.comment",
					}
					checkRows(t, x.Case, list, tsharktest.Read(t, x.Capture, fields...))
				}
			}
		})
	}
}

// checkRows compares the fields that tshark reads with the bytes and with the traffic of the case.
func checkRows(t *testing.T, id string, list []captured, rows [][]string) {
	t.Helper()
	require.Len(t, rows, len(list))
	type key struct{ at, op, psn string }
	sent, received := map[key]int{}, map[key]int{}
	dropped := 0
	other := map[string]string{"02ddcd0000000100/1": "02ddcd0000000200/1", "02ddcd0000000200/1": "02ddcd0000000100/1"}
	for i, row := range rows {
		bth, _ := list[i].transport(t)
		op, err1 := strconv.ParseUint(row[0], 0, 8)
		psn, err2 := strconv.ParseUint(row[1], 0, 24)
		require.NoError(t, err1)
		require.NoError(t, err2)
		assert.EqualValues(t, bth[0], op)
		assert.EqualValues(t, binary.BigEndian.Uint32(bth[8:])&0xffffff, psn)
		require.Contains(t, other, row[2])
		way, err := strconv.ParseUint(row[3], 0, 32)
		require.NoError(t, err)
		switch lost := strings.HasPrefix(row[4], "dropped: impair_"); {
		case lost:
			dropped++
		case way&3 == 2:
			sent[key{other[row[2]], row[0], row[1]}]++
		case way&3 == 1:
			received[key{row[2], row[0], row[1]}]++
			if id != "pcap.lossy" {
				assert.Empty(t, row[4])
			}
		default:
			assert.Fail(t, "direction", "%v", row)
		}
	}
	assert.Equal(t, sent, received, "%s: packets sent and not dropped are received", id)
	assert.Equal(t, id == "pcap.lossy", dropped > 0, "%d packets dropped", dropped)
}
