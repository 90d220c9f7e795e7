package tsharktest

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/testenv"
)

// roce is an RC SEND Only of 4 bytes over IPv4 as Linux Soft-RoCE sends it: Ethernet, IP at 14, UDP at 34, BTH at 42,
// payload, ICRC.
func roce(t *testing.T) []byte {
	t.Helper()
	b, err := hex.DecodeString("525400770002" + "525400770003" + "0800" +
		"4500002c6a9940004011bb890a4d00030a4d0002" + "c48412b700180000" + "0400ffff0000002280002100" + "2b3a02cc")
	require.NoError(t, err)
	return b
}

// needTshark skips the test if tshark is not installed.
func needTshark(t *testing.T) {
	t.Helper()
	if _, err := find(t); err != nil {
		t.Skipf("tshark: %v", err)
	}
}

func TestRead(t *testing.T) {
	a, b := roce(t), roce(t)
	b[53]++ // the lowest byte of the PSN
	file := Write(t, pcapfile.Ethernet, [][]byte{a, b})
	rows := Read(t, file, "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.reth.dmalen",
		"ip.addr", "frame.len")
	assert.Equal(t, [][]string{
		{"4", "8448", "", "10.77.0.3", "58"},
		{"4", "8449", "", "10.77.0.3", "58"},
	}, rows)
}

// TestReadInfiniBand reads an RC SEND Only without payload from LID 1 to LID 2.
func TestReadInfiniBand(t *testing.T) {
	p, err := hex.DecodeString("0002" + "0002" + "0006" + "0001" + "0400ffff0000002280002100" + "00000000" + "0000")
	require.NoError(t, err)
	file := Write(t, pcapfile.InfiniBand, [][]byte{p})
	assert.Equal(t, [][]string{{"2", "1", "4", "26"}},
		Read(t, file, "infiniband.lrh.dlid", "infiniband.lrh.slid", "infiniband.bth.opcode", "erf.wlen"))
}

func TestReadMatching(t *testing.T) {
	plain, cut := roce(t), roce(t)
	cut[42] = 6 // RDMA WRITE First without its RETH
	file := Write(t, pcapfile.Ethernet, [][]byte{cut, plain, cut})
	assert.Equal(t, [][]string{{"2"}}, ReadMatching(t, file, "infiniband.bth.opcode == 4", "frame.number"))
}

// TestReadErrors checks that each kind of bad packet fails the test that reads it, with a message that names the
// packet.
func TestReadErrors(t *testing.T) {
	needTshark(t)
	edit := func(at int, b ...byte) []byte {
		p := roce(t)
		copy(p[at:], b)
		return p
	}
	tests := []struct {
		name    string
		packets [][]byte
		filter  string
		fields  []string
		want    []string // parts of the messages, one each
	}{
		{"malformed", [][]byte{roce(t), edit(42, 6)}, "", []string{"infiniband.bth.psn"},
			[]string{"packet 2 of 2: tshark reports: malformed: "}},
		{"an error in a readable packet", [][]byte{edit(16, 0, 10), roce(t)}, "", nil,
			[]string{"packet 1 of 2: tshark reports: expert information: "}},
		{"checksum of IP", [][]byte{edit(22, 63)}, "", nil, []string{"expert information: Bad checksum"}},
		{"checksum of UDP", [][]byte{edit(40, 0, 1)}, "", nil, []string{"expert information: Bad checksum"}},
		{"no packets", nil, "", nil, []string{"tshark reads no packets"}},
		{"no packets that match", [][]byte{roce(t)}, "tcp", nil, []string{"tshark reads no packets"}},
		{"unknown field", [][]byte{roce(t)}, "", []string{"infiniband.none"}, []string{"infiniband.none"}},
		{"unknown filter", [][]byte{roce(t)}, "infiniband.none == 1", nil, []string{"infiniband.none"}},
		{"many", slicesOf(edit(42, 6), 12), "", nil, append(slicesOf("malformed", maxReported), "2 more bad packets")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := Write(t, pcapfile.Ethernet, tt.packets)
			o := testenv.Try(t, func(t testing.TB) { ReadMatching(t, file, tt.filter, tt.fields...) })
			require.Empty(t, o.Skipped)
			require.Len(t, o.Errors, len(tt.want))
			for i, w := range tt.want {
				assert.Contains(t, o.Errors[i], w)
			}
		})
	}
	t.Run("no capture file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "x.pcap")
		require.NoError(t, os.WriteFile(file, []byte("no capture file"), 0o600))
		o := testenv.Try(t, func(t testing.TB) { Read(t, file) })
		require.Len(t, o.Errors, 1)
		assert.Contains(t, o.Errors[0], "tshark -n -r "+file)
	})
}

func slicesOf[T any](v T, n int) (s []T) {
	for range n {
		s = append(s, v)
	}
	return s
}

func TestSkips(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o := testenv.Try(t, func(t testing.TB) { Read(t, "x.pcap") })
	assert.Empty(t, o.Errors)
	assert.Contains(t, o.Skipped, "tshark")
	assert.Contains(t, o.Skipped, "apt-get install tshark")
}

// fakeTshark puts a shell script named tshark first in PATH.
func fakeTshark(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tshark"), []byte("#!/bin/sh\n"+text), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestBadOutput checks that unexpected output of tshark is an error.
func TestBadOutput(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake tshark is a shell script")
	}
	for _, tt := range []struct{ name, text, want string }{
		{"exit status", "echo out of order >&2; exit 3", "tshark -G heuristic-decodes: exit status 3"},
		{"too few fields", "[ $1 = -G ] || echo x", `tshark printed 1 fields, want 4: "x"`},
		{"bad severity", `[ $1 = -G ] || printf '\037x\037m\037v\n'`,
			`expert information: severity: strconv.ParseUint: parsing "x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeTshark(t, tt.text)
			o := testenv.Try(t, func(t testing.TB) { Read(t, "x.pcap", "f") })
			require.Len(t, o.Errors, 1)
			assert.Contains(t, o.Errors[0], tt.want)
		})
	}
}

func TestExpertError(t *testing.T) {
	for _, tt := range []struct {
		name, malformed      string
		severities, messages []string
		want                 string
	}{
		{"good", "", []string{""}, []string{""}, ""},
		{"no more than a warning", "", []string{"6291456", "0x200000"}, []string{"warning", "chat"}, ""},
		{"an error beside others", "", []string{"4194304", "8388608"}, []string{"note", "bad"},
			"expert information: bad"},
		{"an error without a message", "", []string{"8388608"}, nil, "expert information of severity 8388608"},
		{"malformed", "InfiniBand" + valueSeparator + "IP", []string{""}, []string{""}, "malformed: InfiniBand, IP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := expertError(tt.malformed, tt.severities, tt.messages)
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, tt.want)
		})
	}
}

func TestParseHeuristics(t *testing.T) {
	list := "tcp\thttp\tT\n" +
		"infiniband.payload\tsmc\tT\n" +
		"infiniband.payload\tethertype\tT\n" +
		"infiniband.payload\tlnet\tT\n"
	want := []string{"--disable-protocol", "smc", "--disable-heuristic", "eth_over_ib"}
	assert.Equal(t, want, parseHeuristics(list))
}

// TestHeuristics checks that payload that looks like a packet of another protocol is dissected as data. By default,
// tshark takes one of the two packets for a broken IDP packet in a frame of EtherType 0x0600, and the other for RPC
// over RDMA.
func TestHeuristics(t *testing.T) {
	with := func(payload []byte) []byte {
		p := roce(t)
		p = append(append(p[:54:54], payload...), 0, 0, 0, 0)
		p[25] -= byte(len(p)-14) - p[17]                // keep the IP checksum right
		p[17], p[39] = byte(len(p)-14), byte(len(p)-34) // lengths of IP and UDP
		return p
	}
	// RPC over RDMA: version 1, one credit, RDMA_NOMSG, no chunks (RFC 8166, section 4).
	nomsg := []byte{0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 27: 0}
	idp := append([]byte{6}, make([]byte, 75)...)
	file := Write(t, pcapfile.Ethernet, [][]byte{with(idp), with(nomsg)})
	const protocols = "eth:ethertype:ip:udp:infiniband:data"
	assert.Equal(t, [][]string{{protocols, "76"}, {protocols, "28"}}, Read(t, file, "frame.protocols", "data.len"))
	p, err := find(t)
	require.NoError(t, err)
	out, err := p.run(t.Context(), "-r", file, "-T", "fields", "-e", "frame.protocols")
	require.NoError(t, err)
	assert.Equal(t, "eth:ethertype:ip:udp:infiniband:ethertype:idp\neth:ethertype:ip:udp:infiniband:rpcordma\n", out)
}

func TestDeadline(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake tshark is a shell script")
	}
	fakeTshark(t, "exec sleep 600")
	p, err := find(t)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.run(ctx, "-v")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "tshark -v: ")
}
