package capture

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/linktest"
	"ciddk/internal/pcapfile"
	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
	"ciddk/link/udp"
	"ciddk/rvt"
	"ciddk/wire"
)

// markingPort is a port behind which a congested switch marks all packets that it sends.
type markingPort struct{ rvt.Port }

func (m markingPort) Unwrap() any { return m.Port }

func (m markingPort) Route(av *ci.AVAttr, f rvt.Flow) (rvt.Route, error) {
	marked := *av
	marked.GRH.TrafficClass |= 3
	return m.Port.Route(&marked, f)
}

// TestCongestion sends marked packets over UDP. The peer answers with CNPs, in the form of IBTA annex A17, 17.9.3, and
// tshark reads them.
func TestCongestion(t *testing.T) {
	for name, config := range map[string]udp.Config{"plain": {}, "portable": {Portable: true}} {
		t.Run(name, func(t *testing.T) {
			port := func() rvt.Port {
				c := config
				c.Addr, c.MTU = linktest.Addr(), ci.MTU1024
				return testenv.Must(udp.New(c))
			}
			tap, s := new(Tap), new(shown)
			a := linktest.Open(t, ci.RC, 1<<20, markingPort{port()})
			b := linktest.Open(t, ci.RC, 1<<20, testenv.Must(New(port(), tap)))
			linktest.ConnectBoth(a, b)
			require.NoError(t, tap.Start(s.take))
			linktest.Exercise(t, a, b)
			tap.Stop()

			var frames [][]byte
			marks := 0
			for _, f := range s.frames() {
				var p wire.Frame
				require.NoError(t, wire.ParseIP(f.Data, &p))
				if f.Direction == rvt.Received && wire.IsCE(p.IP4.TOS) {
					marks++
				}
				if bth := p.Packet.BTH; bth.Opcode == wire.CNP {
					require.Equal(t, rvt.Sent, f.Direction)
					require.NoError(t, p.Packet.CheckReserved())
					require.Equal(t, wire.BTH{Opcode: wire.CNP, MigReq: true, PKey: 0xffff, BECN: true,
						DestQP: uint32(a.QP.Num())}, bth)
					frames = append(frames, f.Data)
				}
			}
			require.NotZero(t, marks)
			require.NotEmpty(t, frames)
			require.EqualValues(t, len(frames), b.HCA.Counters()["np_cnp_sent"])
			require.NotZero(t, a.HCA.Counters()["rp_cnp_handled"])
			require.Zero(t, a.HCA.Counters()["np_ecn_marked_roce_packets"])
			rows := tsharktest.Read(t, tsharktest.Write(t, pcapfile.IP, frames), "infiniband.bth.opcode",
				"infiniband.bth.destqp", "infiniband.bth.psn")
			for _, row := range rows {
				for i, want := range []uint64{uint64(wire.CNP), uint64(a.QP.Num()), 0} {
					got, err := strconv.ParseUint(row[i], 0, 64)
					require.NoError(t, err)
					require.Equal(t, want, got)
				}
			}
		})
	}
}
