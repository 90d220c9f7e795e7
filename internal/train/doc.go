// Package train converts between trains of packets, which the engine of package rvt sends and receives (rvt.Packet),
// and single packets in the form of package wire. Ports that put packets on a wire, or show them as bytes, use it.
//
// A port with an encoding of its own cuts a train like this:
//
//	var w wire.Packet
//	train.PutHeaders(&w, p)
//	for k := range p.N {
//		if !train.PutBTH(&w.BTH, p, k) { … } // no opcode for this combination
//		w.Payload = … // p.MTU bytes, or what is left
//		…
//	}
//
// and a receiver fills in an rvt.Packet with TakeHeaders.
package train
