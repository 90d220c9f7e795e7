package sma_test

import (
	"fmt"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/sma"
)

// A driver implements LocalMAD for what its hardware does: here, Set(PortInfo) and nothing else.
type device struct{ lid ci.LID }

func (d *device) LocalMAD(_ uint8, _ *ci.AVAttr, in, out *ci.MAD) error {
	var s mad.SMP
	s.Parse(in[:])
	if s.Method == mad.Set && s.Attribute == mad.AttrPortInfo {
		var info mad.PortInfo
		info.Parse(s.Data[:])
		d.lid = ci.LID(info.LID) // a real one writes it to the hardware
	} else {
		s.Status = mad.StatusBadMethodAttribute // the kit answers the rest
	}
	s.Method = mad.GetResp
	s.Put(out[:])
	return nil
}

// attr is what the driver's CA.Query returns.
func (d *device) attr() *ci.CAAttr {
	return &ci.CAAttr{Caps: ci.CapLocalMAD, GUID: 0x2c9000100, Ports: []ci.PortAttr{{Num: 1, GUID: 0x2c9000101,
		LID: d.lid, State: ci.PortActive, MTU: ci.MTU2048, MaxMTU: ci.MTU4096, PKeys: []ci.PKey{0xffff}}}}
}

// The kit's agent over a driver. Package accesslayer/mads makes one for each adapter.
func Example() {
	d := &device{lid: 1}
	agent := sma.New(sma.Config{Node: sma.NewCANode(sma.CANodeConfig{CA: d, Attr: d.attr, Description: "my adapter"})})
	defer agent.Close()

	request := mad.SMP{Header: mad.Header{BaseVersion: 1, Class: mad.ClassSubnetLID, ClassVersion: 1, Method: mad.Get,
		Attribute: mad.AttrNodeInfo, TID: 7}}
	var m ci.MAD
	request.Put(m[:])
	verdict := agent.Receive(1, 12, &m) // from LID 12, at port 1
	if verdict.Action == sma.Reply {
		var s mad.SMP
		s.Parse(m[:])
		var n mad.NodeInfo
		n.Parse(s.Data[:])
		fmt.Printf("%v: node GUID %#x, %d port\n", s.Method, n.NodeGUID, n.NumPorts)
	}
	// Output: GetResp: node GUID 0x2c9000100, 1 port
}
