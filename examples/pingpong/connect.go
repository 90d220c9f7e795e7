package main

import "ciddk/ci"

// The QP attributes are those of the original programs: port 1, P_Key index 0, retry counts 7, acknowledgement timeout
// 14 (67 ms), RNR timer 12 (0.64 ms), one outstanding RDMA READ.

// service returns the type of the QPs of a mode.
func service(mode string) ci.QPType {
	switch mode {
	case "uc":
		return ci.UC
	case "ud":
		return ci.UD
	default:
		return ci.RC
	}
}

// connect moves every QP to RTS, connected to its peer.
func (e *endpoint) connect() error {
	for i, qp := range e.qps {
		av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: e.peers[i].GID, SGIDIndex: e.gid, HopLimit: 64}}
		typ := service(e.o.Mode)
		rtr := ci.ToRTR{
			AV: av, MTU: mtuCode(e.o.MTU), DestNum: e.peers[i].QPN, RQPSN: e.peers[i].PSN, RespRes: 1, MinRNRTimer: 12,
		}
		rts := ci.ToRTS{SQPSN: e.psns[i], AckTimeout: 14, RetryCount: 7, RNRRetry: 7, InitDepth: 1}
		if typ == ci.UD {
			v, err := e.pd.CreateAV(av)
			if err != nil {
				return err
			}
			e.undo = append(e.undo, v.Destroy)
			e.avs = append(e.avs, v)
		}
		if err := qp.Modify(rtr.For(typ)); err != nil {
			return err
		}
		if err := qp.Modify(rts.For(typ)); err != nil {
			return err
		}
	}
	return nil
}

// mtuCode returns the code of a path MTU in bytes. It returns 0 if there is none.
func mtuCode(bytes int) ci.MTU {
	for m := ci.MTU256; m <= ci.MTU4096; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}
