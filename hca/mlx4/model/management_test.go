package model_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/fabric"
	"ciddk/fabric/topology"
	"ciddk/hca/mlx4/model"
	"ciddk/internal/mlx4/prm"
	"ciddk/mad"
)

const subnetText = `Switch 4 "s1"
[1] "h1"[1]

Ca 1 "h1"
[1] "s1"[1]
`

// A manager in the guest sends a directed route SMP by QP0 to the switch, and gets its response. Linux executes the
// first step of the route itself.
func TestManagementDatagram(t *testing.T) {
	t.Run("first step by the adapter", func(t *testing.T) { sendDirected(t, 0) })
	t.Run("first step by the driver", func(t *testing.T) { sendDirected(t, 1) })
}

func sendDirected(t *testing.T, hopPointer uint16) {
	topo, err := topology.Read(strings.NewReader(subnetText), "subnet", nil)
	require.NoError(t, err)
	f, err := fabric.New(topo, fabric.Config{})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	link, err := f.CAPort("h1", 0)
	require.NoError(t, err)
	m, err := model.New(model.Config{Ports: []model.PortConfig{{Link: link}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	d := newDriver(t, m)
	d.start()
	d.imm(prm.CmdConfSpecialQP, 0, 0x200, 0)
	d.imm(prm.CmdInitPort, 0, 1, 0)
	cq, mr := d.newCQ(128, 6), d.newMR(regionSize)
	q := d.newQP(0x200, prm.ServiceMLX, cq) // QP0 of port 1
	q.start()
	q.postRecv(dataSegment(40+mad.Size, mr.key, mr.start))

	const at = 4096 // of the request in the region
	smp := mr.Bytes[at : at+mad.Size]
	h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetDirected, ClassVersion: 1, Method: mad.Get, TID: 9,
		ClassSpecific: hopPointer<<8 | 1, Attribute: mad.AttrNodeInfo}
	h.Put(smp)
	binary.BigEndian.PutUint16(smp[32:], 0xffff) // permissive LIDs
	binary.BigEndian.PutUint16(smp[34:], 0xffff)
	smp[128+1] = 1 // the path: out of port 1

	// The packed headers are LRH, BTH and DETH, as the driver makes them.
	lrh := []byte{0xf0, 2, 0xff, 0xff, 0, 72, 0, 0}
	bth := []byte{100, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}
	deth := make([]byte, 8)
	header := string(lrh) + string(bth) + string(deth)
	icrc := inlineSegment("\x00\x00\x00\x00")
	q.postMLX(0xffff, inlineSegment(header), dataSegment(mad.Size, mr.key, mr.start+at), icrc)
	requireCQE(t, cq.wait(), q.num, true, prm.WQESend)
	e := cq.wait()
	requireCQE(t, e, q.num, false, prm.CQERecvSend)
	var r mad.Header
	r.Parse(mr.Bytes[40:])
	require.Equal(t, mad.GetResp, r.Method)
	require.EqualValues(t, 9, r.TID)
	var info mad.NodeInfo
	info.Parse(mr.Bytes[40+64:])
	require.Equal(t, mad.NodeSwitch, info.Type)
}

// postMLX posts a management datagram to a LID.
func (q *queuePair) postMLX(lid uint16, segments ...[]byte) {
	q.write(prm.WQESend, uint32(lid)<<16, 0, segments)
}
