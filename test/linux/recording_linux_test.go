package linux

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
)

// frame is one Ethernet frame of a capture.
type frame struct {
	at   time.Time
	data []byte
}

// recording collects what several runs put on the wire, for one run of tshark, which takes longer to start than to read.
type recording struct {
	frames  [][]byte
	packets int     // RoCEv2 packets among them
	last    []frame // the last run alone
}

// record captures while f runs, and checks the ICRC of everything captured. It gives how many RoCEv2 packets came from which address.
func (r *recording) record(t *testing.T, l *lab, f func()) map[netip.Addr]int {
	t.Helper()
	var b bytes.Buffer
	capture, err := l.linux.Capture(&b)
	require.NoError(t, err)
	func() {
		defer func() { assert.NoError(t, capture.Stop()) }()
		f()
	}()
	r.last, err = frames(&b)
	require.NoError(t, err)
	sent := map[netip.Addr]int{}
	for i, f := range r.last {
		r.frames = append(r.frames, f.data)
		p, ok := parse(f.data)
		if !ok {
			continue
		}
		a, _ := netip.AddrFromSlice(p.source) // 4 or 16 bytes
		sent[a]++
		r.packets++
		require.NoError(t, p.checksum, "frame %d from %v", i+1, a)
	}
	return sent
}

// frames takes a pcap file apart.
func frames(pcap io.Reader) (list []frame, err error) {
	r, err := pcapgo.NewReader(pcap)
	if err != nil {
		return nil, err
	}
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, frame{at: ci.Timestamp, data: data})
	}
}

// ofRoCE lets RoCEv2 pass, but not what an ICMP error quotes: an acknowledgement may come for a program that has ended.
const ofRoCE = `frame.protocols matches "^eth:ethertype:(ip|ipv6):udp:infiniband"`

// dissect lets tshark read what was recorded: it must take all packets for RoCEv2, find nothing wrong with them, and see no NAK but one for a lost
// packet.
func (r *recording) dissect(t *testing.T) {
	_, err := exec.LookPath("tshark")
	testenv.Linux(t, err)
	rows := tsharktest.ReadMatching(t, tsharktest.Write(t, tsharktest.Ethernet, r.frames), ofRoCE, "infiniband.aeth.syndrome.error_code")
	require.Len(t, rows, r.packets, "packets that tshark takes for RoCEv2")
	lost := 0
	for _, row := range rows {
		if row[0] != "" {
			require.Equal(t, "0", row[0], "a NAK for other reasons than a PSN sequence error")
			lost++
		}
	}
	t.Logf("%d packets, %d NAKs for lost ones", r.packets, lost)
}
