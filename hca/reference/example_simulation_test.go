package reference_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"ciddk/ci"
	"ciddk/clock"
	"ciddk/hca/reference"
	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/rvt"
)

// Two HCAs on a network in virtual time that loses every fifth packet. The WRITE arrives nevertheless, and takes the
// same time on every machine.
func Example_simulation() {
	v := clock.NewVirtual(0)
	packets := 0
	net := sim.NewNetwork(sim.NetworkConfig{Clock: v, Latency: 5 * time.Microsecond,
		Filter: func(*sim.Datagram) impair.Verdict {
			if packets++; packets%5 == 0 {
				return impair.Drop
			}
			return impair.Pass
		}})
	var qps [2]ci.QP
	var mrs [2]ci.MR
	var cqs [2]ci.CQ
	var bufs [2][10000]byte
	for i := range qps {
		port, err := sim.New(net, sim.Config{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})})
		check(err)
		hca, err := reference.New(reference.Config{Clock: v, Rand: rand.NewChaCha8([32]byte{byte(i)}),
			Ports: []rvt.Port{port}})
		check(err)
		defer hca.Close()
		ca, err := hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil)
		check(err)
		pd, err := ca.AllocatePD(ci.PDNormal)
		check(err)
		cqs[i], err = pd.CreateCQ(ci.CQCreate{Size: 16})
		check(err)
		qps[i], err = pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cqs[i], RecvCQ: cqs[i],
			QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1}})
		check(err)
		mrs[i], err = pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(bufs[i][:]), Access: ci.LocalWrite | ci.RemoteWrite})
		check(err)
	}
	for i := range qps {
		peer := ci.GID(netip.AddrFrom4([4]byte{10, 0, 0, byte(2 - i)}).As16())
		check(qps[i].Modify(ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1, Access: ci.RemoteWrite}))
		check(qps[i].Modify(ci.QPFieldsRTR, ci.QPAttr{State: ci.QPRTR, MTU: ci.MTU1024, DestNum: qps[1-i].Num(),
			RespRes: 1, MinRNRTimer: 1,
			Primary: ci.Path{AV: ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: peer}}}}))
		check(qps[i].Modify(ci.QPFieldsRTS, ci.QPAttr{State: ci.QPRTS, InitDepth: 1, RetryCount: 7, RNRRetry: 7,
			Primary: ci.Path{AckTimeout: 12}}))
	}

	copy(bufs[0][9000:], "Hello, simulated fabric")
	_, err := qps[0].PostSend([]ci.SendWR{{Op: ci.OpWrite, Flags: ci.SendSignaled,
		SGL: []ci.SGE{mrs[0].Region().SGE(0, 10000)}, Remote: mrs[1].Region().Remote(0)}})
	check(err)
	var wc [1]ci.WC
	for n := 0; n == 0 && v.Step(); {
		n, err = cqs[0].Poll(wc[:])
		check(err)
	}
	fmt.Printf("%v after %v: %s\n", wc[0].Status.String(), v.Elapsed(), bufs[1][9000:9023])
	fmt.Printf("%d packets passed, %d lost\n", net.Count(impair.Pass), net.Count(impair.Drop))
	// Output:
	// success after 16.817216ms: Hello, simulated fabric
	// 23 packets passed, 5 lost
}
