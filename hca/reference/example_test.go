package reference_test

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// Two HCAs on a direct link; a SEND from one to the other. For UDP, only the ports differ:
// udp.New(udp.Config{Addr: netip.MustParseAddr("127.0.0.1")}).
func Example() {
	link := direct.NewLink()
	var hcas [2]*reference.HCA
	var cas [2]ci.CA
	var cqs [2]ci.CQ
	var qps [2]ci.QP
	var mrs [2]ci.MR
	var pds [2]ci.PD
	var bufs [2][]byte
	for i := range hcas {
		port, err := direct.New(link, direct.Config{})
		check(err)
		hca, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
		check(err)
		ca, err := hca.OpenCA(hca.Info().GUID, func(ci.Event) {}, nil)
		check(err)
		pd, err := ca.AllocatePD(ci.PDNormal)
		check(err)
		cq, err := pd.CreateCQ(ci.CQCreate{Size: 16})
		check(err)
		qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq,
			QPCaps: ci.QPCaps{SendDepth: 8, RecvDepth: 8, SendSGE: 1, RecvSGE: 1}})
		check(err)
		bufs[i] = make([]byte, 4096)
		mr, err := pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(bufs[i]), Access: ci.LocalWrite})
		check(err)
		hcas[i], cas[i] = hca, ca
		pds[i], cqs[i] = pd, cq
		qps[i], mrs[i] = qp, mr
	}
	for i := range qps {
		peer, err := cas[1-i].Query()
		check(err)
		to := ci.AVAttr{Port: 1, DLID: peer.Ports[0].LID}
		check(qps[i].Modify(ci.ToInit{Port: 1}.For(ci.RC)))
		check(qps[i].Modify(ci.ToRTR{AV: to, MTU: ci.MTU4096, DestNum: qps[1-i].Num(), RQPSN: 1, RespRes: 1,
			MinRNRTimer: 12}.For(ci.RC)))
		check(qps[i].Modify(ci.ToRTS{SQPSN: 1, AckTimeout: 14, InitDepth: 1, RetryCount: 7, RNRRetry: 7}.For(ci.RC)))
	}

	_, err := qps[1].PostRecv([]ci.RecvWR{{ID: 1, SGL: []ci.SGE{mrs[1].Region().SGE(0, 4096)}}})
	check(err)
	n := copy(bufs[0], "Hello, fabric")
	_, err = qps[0].PostSend([]ci.SendWR{{ID: 2, Op: ci.OpSend, Flags: ci.SendSignaled,
		SGL: []ci.SGE{mrs[0].Region().SGE(0, uint32(n))}}})
	check(err)
	for i := 1; i >= 0; i-- {
		var wc [1]ci.WC
		for n := 0; n == 0; {
			n, err = cqs[i].Poll(wc[:])
			check(err)
		}
		fmt.Println("request", wc[0].ID, wc[0].Status.String())
	}
	fmt.Println(string(bufs[1][:n]))
	for i, h := range hcas { // children before parents
		check(errors.Join(qps[i].Destroy(), cqs[i].Destroy(), mrs[i].Destroy(), pds[i].Destroy(),
			cas[i].Destroy(), h.Close()))
	}
	// Output:
	// request 1 success
	// request 2 success
	// Hello, fabric
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
