package cmsuite

import (
	"encoding/binary"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// The addresses of paths that the peer describes.
var paths = area()

// describedPath is a path that the peer describes, as a change of a valid one.
type describedPath struct {
	name     string
	isLAP    bool // also in a LAP
	change   func(*mad.CMPath)
	refusal  mad.RejReason // as of a primary path; 0: the path is usable
	expected func(av *ci.AVAttr, c *mad.CMPath)
}

// describedPaths returns paths to side a from side b.
func describedPaths(a, b *side) []describedPath {
	const permissive = 0xffff
	isIB := a.ca.Port.Link == ci.LinkInfiniBand
	subnetLocal := func(av *ci.AVAttr, c *mad.CMPath) { av.Global, av.DLID = false, ci.LID(c.LocalLID) }
	routed := func(c *mad.CMPath) { c.SubnetLocal, c.RemoteLID, c.LocalLID = false, permissive, permissive }
	next := uint16(1) << a.ca.Port.LMC // the first bit of a LID that is no path bit
	list := []describedPath{
		{name: "to another GID", isLAP: true, change: func(c *mad.CMPath) { c.RemoteGID[8] ^= 0x80 },
			refusal: mad.RejPrimaryGID},
		{name: "to no GID, beyond the subnet", isLAP: true, change: func(c *mad.CMPath) {
			c.RemoteGID, c.SubnetLocal = [16]byte{}, false
		}, refusal: mad.RejPrimaryGID},
		{name: "from no GID, beyond the subnet", isLAP: true, change: func(c *mad.CMPath) {
			c.LocalGID, c.SubnetLocal = [16]byte{}, false
		}, refusal: mad.RejPrimaryGID},
	}
	if !isIB {
		return append(list, []describedPath{
			{name: "to no GID, within the subnet", isLAP: true, change: func(c *mad.CMPath) {
				c.RemoteGID, c.SubnetLocal = [16]byte{}, true
			}, refusal: mad.RejPrimaryGID},
			{name: "from no GID, within the subnet", isLAP: true, change: func(c *mad.CMPath) {
				c.LocalGID, c.SubnetLocal = [16]byte{}, true
			}, refusal: mad.RejPrimaryGID},
			{name: "with any LIDs", isLAP: true, change: func(c *mad.CMPath) { c.LocalLID, c.RemoteLID = 7, 0x1234 },
				expected: func(av *ci.AVAttr, _ *mad.CMPath) { av.Global, av.DLID, av.PathBits = true, 0, 0 }},
		}...)
	}
	for _, bit := range []uint16{next, 0x2000, 0x8000} {
		list = append(list, describedPath{name: "to another LID", isLAP: true,
			change: func(c *mad.CMPath) { c.RemoteLID ^= bit }, refusal: mad.RejPrimaryLID})
	}
	for _, lid := range []uint16{0, 0xc000, 0xfffe} {
		list = append(list, describedPath{name: "from a LID that no port has", isLAP: true,
			change: func(c *mad.CMPath) { c.LocalLID = lid }, refusal: mad.RejPrimaryLID})
	}
	return append(list, []describedPath{
		{name: "to the permissive LID, within the subnet", isLAP: true, change: func(c *mad.CMPath) {
			c.RemoteLID = permissive
		}, refusal: mad.RejPrimaryLID},
		{name: "to no GID, within the subnet", change: func(c *mad.CMPath) { c.RemoteGID = [16]byte{} },
			expected: subnetLocal},
		{name: "from no GID, within the subnet", change: func(c *mad.CMPath) { c.LocalGID = [16]byte{} },
			expected: subnetLocal},
		{name: "from the largest LID", isLAP: true, change: func(c *mad.CMPath) { c.LocalLID = 0xbfff },
			expected: subnetLocal},
		{name: "with all path bits", isLAP: true, change: func(c *mad.CMPath) { c.RemoteLID |= next - 1 },
			expected: func(av *ci.AVAttr, c *mad.CMPath) { subnetLocal(av, c); av.PathBits = uint8(next - 1) }},
		{name: "with LIDs, beyond the subnet", isLAP: true, change: func(c *mad.CMPath) { c.SubnetLocal = false },
			expected: func(av *ci.AVAttr, c *mad.CMPath) { av.Global, av.DLID = true, ci.LID(c.LocalLID) }},
		{name: "with permissive LIDs, beyond the subnet", isLAP: true, change: routed,
			expected: func(av *ci.AVAttr, _ *mad.CMPath) { // the addresses of the datagram
				av.Global, av.DLID, av.PathBits = true, b.ca.Port.LID, 0
			}},
	}...)
}

// information returns the value that a refusal names.
func (p describedPath) information(a *side) []byte {
	if p.refusal == mad.RejPrimaryLID {
		return binary.BigEndian.AppendUint16(nil, uint16(a.ca.Port.LID))
	}
	for _, e := range a.ca.Port.GIDs {
		if e.GID != (ci.GID{}) {
			return e.GID[:]
		}
	}
	return nil
}

// fits expects that an address is that of the path.
func (p describedPath) fits(t *validate.T, where string, got ci.AVAttr, c *mad.CMPath) {
	want := got
	p.expected(&want, c)
	kit.Equal(t, "DLID, path bits and Global of "+where, [3]any{got.DLID, got.PathBits, got.Global},
		[3]any{want.DLID, want.PathBits, want.Global})
	kit.Equal(t, "destination GID of "+where, got.GRH.DGID, ci.GID(c.LocalGID))
}

var CMAddr01 = paths.Must("CM-Addr-01", "IBTA 12.6.7.2", "cm, Listener.Accept",
	"A REQ whose primary or alternate path does not lead to the port, or not back, is rejected. The reason names the "+
		"address, and the additional information has one that the port has. Other paths are the consumer's.")

var _ = paths.Case(validate.Case{
	ID:    "cm.path.request",
	Title: "REQs with usable and unusable addresses",
	Run:   pathRequest,
}, CMAddr01)

func pathRequest(t *validate.T) {
	y, p, l := serving(t, cm.ListenConfig{})
	n := 0
	request := func(v describedPath, isAlternate bool) {
		n++
		q, where := p.req(service, 0x321+ci.QPN(n)), "a REQ whose primary path is "+v.name
		c, refusal := &q.Primary, v.refusal
		if isAlternate {
			q.Alternate = q.Primary
			c, where = &q.Alternate, "a REQ whose alternate path is "+v.name
			refusal += mad.RejAlternateGID - mad.RejPrimaryGID
		}
		v.change(c)
		if isAlternate && !q.HasAlternate() { // LID 0 means that there is none (IBTA volume 1, 12.7.21)
			return
		}
		tid := uint64(0x1000 + n)
		p.send(tid, q)
		if v.refusal != 0 {
			rej, m := expect[*mad.REJ](p, "answer to "+where)
			kit.Equal(t, "reason for "+where, rej.Reason, refusal)
			kit.SameBytes(t, "additional information for "+where, rej.AdditionalInfo(), v.information(y.side))
			kit.Equal(t, "message rejected, for "+where, rej.Message, mad.WhichREQ)
			kit.Equal(t, "remote communication ID and transaction ID for "+where,
				[2]uint64{uint64(rej.RemoteCommID), m.TID}, [2]uint64{uint64(q.LocalCommID), tid})
			return
		}
		y.Conn = accepted(t, l)
		r := y.Request()
		if isAlternate {
			kit.True(t, r.Alternate != nil, "alternate path of "+where, "a path", "none")
			v.fits(t, where, r.Alternate.AV, c)
		} else {
			v.fits(t, where, r.Primary.AV, c)
			kit.True(t, r.Alternate == nil, "alternate path of "+where, "none", "%+v", r.Alternate)
			_, attr := y.attrOf(ci.QPRTR)
			v.fits(t, "the QP after "+where, attr.Primary.AV, c)
		}
		kit.OK(t, y.Reject(mad.RejConsumer, nil, nil), "cm.Conn.Reject")
		expect[*mad.REJ](p, "REJ")
	}
	list := describedPaths(y.side, p.here)
	for _, v := range kit.Variants(t, "", list) {
		request(v, false)
		if v.isLAP && t.Claims().Has(ci.CapAPM) {
			request(v, true)
		}
	}
	q := p.req(service, 0x7321) // the manager still accepts valid requests
	p.send(0x9000, q)
	y.Conn = accepted(t, l)
	kit.Equal(t, "QP of a valid request", y.Request().LocalQPN, q.LocalQPN)
}

var CMAddr02 = paths.Must("CM-Addr-02", "IBTA 12.8.1", "cm, EventAlternate",
	"A LAP whose path does not lead to the port, or not back, is answered with the status for the address, and with "+
		"one that the port has. Other paths reach the consumer.")

var _ = paths.Case(validate.Case{
	ID:    "cm.path.proposal",
	Title: "LAPs with usable and unusable addresses",
	Needs: validate.Needs{Caps: ci.CapAPM},
	Run:   pathProposal,
}, CMAddr02)

func pathProposal(t *validate.T) {
	y, p, q, r := ending(t, nil)
	status := map[mad.RejReason]mad.APRStatus{0: mad.APRRejected, mad.RejPrimaryGID: mad.APRInvalidGID,
		mad.RejPrimaryLID: mad.APRInvalidLID}
	for i, v := range kit.Variants(t, "", describedPaths(y.side, p.here)) {
		if !v.isLAP {
			continue
		}
		l := &mad.LAP{LocalCommID: q.LocalCommID, RemoteCommID: r.LocalCommID, RemoteQPN: r.LocalQPN,
			RemoteTimeout: 18, Alternate: otherPort(q.Primary)}
		v.change(&l.Alternate)
		tid, where := uint64(0x5000+i), "a LAP whose path is "+v.name
		p.send(tid, l)
		var info []byte
		if v.refusal == 0 {
			e := event(t, y, cm.EventAlternate, "event after "+where)
			kit.True(t, e.Path != nil, "path in the event after "+where, "a path", "none")
			v.fits(t, where, e.Path.AV, &l.Alternate)
			kit.OK(t, y.AnswerAlternate(mad.APRRejected, nil, nil), "cm.Conn.AnswerAlternate")
		} else {
			info = v.information(y.side)
		}
		a, m := expect[*mad.APR](p, "answer to "+where)
		kit.Equal(t, "status of the answer to "+where, a.Status, status[v.refusal])
		kit.SameBytes(t, "additional information for "+where, a.AdditionalInfo(), info)
		kit.Equal(t, "transaction ID of the answer to "+where, m.TID, tid)
		y.loadsNone("after " + where)
	}
	inState(t, y, cm.StateEstablished, "after the LAPs")
}
