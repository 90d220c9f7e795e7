package main

import "ciddk/ci"

// The attributes are those of the original programs: port and P_Key index 1 and 0, retry counts 7, ack timeout 14 (67 ms), RNR timer
// 12 (0.64 ms), one read at a time.

func initAttr(mode string) (ci.QPField, ci.QPAttr) {
	if mode == "ud" {
		return ci.QPFieldsUDInit, ci.QPAttr{State: ci.QPInit, Port: 1, QKey: qkey}
	}
	return ci.QPFieldsInit, ci.QPAttr{State: ci.QPInit, Port: 1}
}

// connect takes every QP to RTS, towards its peer.
func (e *endpoint) connect() error {
	for i, qp := range e.qps {
		av := ci.AVAttr{Port: 1, Global: true, GRH: ci.GRH{DGID: e.peers[i].GID, SGIDIndex: e.gid, HopLimit: 64}}
		rtr := ci.QPAttr{
			State: ci.QPRTR, Primary: ci.Path{AV: av}, MTU: mtuCode(e.o.MTU), DestNum: e.peers[i].QPN, RQPSN: e.peers[i].PSN,
			RespRes: 1, MinRNRTimer: 12,
		}
		rts := ci.QPAttr{
			State: ci.QPRTS, SQPSN: e.psns[i], RetryCount: 7, RNRRetry: 7, InitDepth: 1, Primary: ci.Path{AckTimeout: 14},
		}
		toRTR, toRTS := ci.QPFieldsRTR, ci.QPFieldsRTS
		switch e.o.Mode {
		case "uc":
			toRTR, toRTS = ci.QPFieldsUCRTR, ci.QPFieldsUCRTS
		case "ud":
			toRTR, toRTS = ci.QPFieldsUDRTR, ci.QPFieldsUDRTS
			v, err := e.pd.CreateAV(av)
			if err != nil {
				return err
			}
			e.undo = append(e.undo, v.Destroy)
			e.avs = append(e.avs, v)
		}
		if err := qp.Modify(toRTR, rtr); err != nil {
			return err
		}
		if err := qp.Modify(toRTS, rts); err != nil {
			return err
		}
	}
	return nil
}

// mtuCode is the code of a path MTU in bytes, 0 for none.
func mtuCode(bytes int) ci.MTU {
	for m := ci.MTU256; m <= ci.MTU4096; m++ {
		if m.Bytes() == bytes {
			return m
		}
	}
	return 0
}
