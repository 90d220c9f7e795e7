package mad_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ciddk/mad"
)

func TestParseSARefuses(t *testing.T) {
	t.Parallel()
	valid := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: 1, Class: mad.ClassSubnetAdmin, ClassVersion: 2, Method: mad.Get,
		Attribute: mad.AttrPathRecord}
	h.Put(valid)
	var s mad.SA
	require.NoError(t, mad.ParseSA(valid, &s))
	for name, tt := range map[string]struct {
		b    []byte
		kind error
	}{
		"nothing":       {nil, mad.ErrLength},
		"short":         {valid[:255], mad.ErrLength},
		"base version":  {append([]byte{0}, valid[1:]...), mad.ErrVersion},
		"class":         {append([]byte{1, 4}, valid[2:]...), mad.ErrClass},
		"class version": {append([]byte{1, 3, 1}, valid[3:]...), mad.ErrVersion},
	} {
		err := mad.ParseSA(tt.b, &s)
		require.ErrorIs(t, err, tt.kind, name)
		if len(tt.b) == mad.Size {
			assert.Equal(t, mad.AttrPathRecord, s.Attribute, "%s: an answer needs the header", name)
		}
		var p mad.Perf
		if name != "class" {
			require.Error(t, mad.ParsePerf(tt.b, &p), name)
		}
	}
}

func TestParsePerf(t *testing.T) {
	t.Parallel()
	b := make([]byte, mad.Size)
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: mad.Get,
		Attribute: mad.AttrPortCounters}
	h.Put(b)
	b[mad.PerfHeaderLen+1] = 3
	var p mad.Perf
	require.NoError(t, mad.ParsePerf(b, &p))
	var c mad.PortCounters
	c.Parse(p.Data[:])
	assert.EqualValues(t, 3, c.PortSelect)
	b[2] = 2
	require.ErrorIs(t, mad.ParsePerf(b, &p), mad.ErrVersion)
	assert.Equal(t, mad.AttrPortCounters, p.Attribute)
}

func TestAttributeOffset(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]uint16{mad.PathRecordLen: 8, mad.MCMemberRecordLen: 7, mad.ServiceRecordLen: 22,
		mad.PortInfoRecordLen: 9, mad.NodeRecordLen: 14} {
		assert.Equal(t, want, mad.AttributeOffset(size), size)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	data := make([]byte, 2*56)
	data[0], data[51], data[56] = 1, 2, 3
	r, err := mad.Records(data, 7, mad.MCMemberRecordLen)
	require.NoError(t, err)
	require.Len(t, r, 2)
	assert.Equal(t, data[:52], r[0])
	assert.Equal(t, data[56:108], r[1])
	r, err = mad.Records(data[:108], 7, mad.MCMemberRecordLen)
	require.NoError(t, err, "the last record without padding")
	assert.Len(t, r, 2)
	r, err = mad.Records(data, 14, mad.MCMemberRecordLen)
	require.NoError(t, err, "longer records of a later edition")
	assert.Len(t, r, 1)
	r, err = mad.Records(nil, 0, mad.PathRecordLen)
	require.NoError(t, err, "no record, as OpenSM answers it")
	assert.Empty(t, r)
	for name, f := range map[string]func() ([][]byte, error){
		"no offset":      func() ([][]byte, error) { return mad.Records(data, 0, mad.PathRecordLen) },
		"small offset":   func() ([][]byte, error) { return mad.Records(data, 7, mad.PathRecordLen) },
		"half a record":  func() ([][]byte, error) { return mad.Records(data[:80], 7, mad.MCMemberRecordLen) },
		"less than one":  func() ([][]byte, error) { return mad.Records(data[:51], 7, mad.MCMemberRecordLen) },
		"largest offset": func() ([][]byte, error) { return mad.Records(data[:60], 0xffff, mad.PathRecordLen) },
	} {
		r, err := f()
		assert.ErrorIs(t, err, mad.ErrLength, name)
		assert.Nil(t, r, name)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{mad.PathRecordLen, mad.MCMemberRecordLen, mad.NodeRecordLen,
			mad.PortInfoRecordLen}).Draw(rt, "size")
		in := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), size, size), 0, 5).Draw(rt, "records")
		offset := mad.AttributeOffset(size)
		var data []byte
		for _, r := range in {
			data = append(data, r...)
			data = append(data, make([]byte, 8*int(offset)-size)...)
		}
		out, err := mad.Records(data, offset, size)
		require.NoError(rt, err)
		require.Len(rt, out, len(in))
		for i := range in {
			require.True(rt, bytes.Equal(in[i], out[i]))
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	var s mad.ServiceRecord
	full := string(bytes.Repeat([]byte{'x'}, mad.ServiceNameLen))
	require.NoError(t, s.SetName(full))
	assert.Equal(t, full, s.NameString())
	require.ErrorIs(t, s.SetName(full+"x"), mad.ErrLength)
	require.NoError(t, s.SetName("disk"))
	assert.Equal(t, "disk", s.NameString())
	n := mad.NodeRecord{Description: [64]byte{'h', 'o', 's', 't'}}
	assert.Equal(t, "host", n.DescriptionString())

	assert.Equal(t, "PathRecord", mad.AttributeName(mad.ClassSubnetAdmin, mad.AttrPathRecord))
	assert.Equal(t, "PortInfo", mad.AttributeName(mad.ClassSubnetDirected, mad.AttrPortInfo))
	assert.Equal(t, "DREQ", mad.AttributeName(mad.ClassCM, 0x15), "the same number as PortInfo's")
	assert.Equal(t, "ComMgt attribute 0x0099", mad.AttributeName(mad.ClassCM, 0x99))
	assert.Equal(t, "Vendor(0x0a)", mad.Class(0x0a).String())
	assert.Equal(t, "Vendor(0x4f)", mad.ClassVendor2Last.String())
	assert.Equal(t, "Class(0x50)", mad.Class(0x50).String())
	assert.Equal(t, "GetTableResp", mad.GetTableResp.String())
	assert.Equal(t, "Method(0x7f)", mad.Method(0x7f).String())
	assert.Equal(t, "full member, send-only non member", (mad.FullMember | mad.SendOnlyNonMember).String())
	assert.Equal(t, "no member", mad.JoinState(0).String())
	assert.Equal(t, "non member, 0x10", mad.JoinState(0x12).String())
}

func TestResponse(t *testing.T) {
	t.Parallel()
	for m, want := range map[mad.Method]bool{mad.Get: false, mad.Send: false, mad.Trap: false, mad.Report: false,
		mad.TrapRepress: true, mad.GetResp: true, mad.GetTableResp: true} {
		assert.Equal(t, want, (&mad.Header{Method: m}).Response(), "%v", m)
	}
}

func TestStatusText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status uint16
		class  mad.Class
		want   string
	}{
		{0, mad.ClassCM, "OK"},
		{mad.StatusBusy, 0, "busy"},
		{mad.StatusRedirect | mad.StatusBusy, 0, "busy, redirect"},
		{mad.StatusBadVersion, 0, "base or class version not supported"},
		{mad.StatusBadMethod, 0, "method not supported"},
		{mad.StatusBadMethodAttribute, 0, "method and attribute not supported together"},
		{mad.StatusBadField, 0, "invalid value in attribute or modifier"},
		{0x10, 0, "reserved code 4"},
		{0xe0, 0, "reserved bits 0xe0"},
		{mad.StatusSANoRecords, mad.ClassSubnetAdmin, "SA: no records"},
		{mad.StatusSANoRecords, mad.ClassPerformance, "class status 0x03"},
		{0x0800, mad.ClassSubnetAdmin, "class status 0x08"},
		{mad.StatusDirection, mad.ClassSubnetDirected, "returning, OK"},
		{mad.StatusDirection | mad.StatusBadField, mad.ClassSubnetDirected,
			"returning, invalid value in attribute or modifier"},
		{mad.StatusDirection, mad.ClassSubnetLID, "class status 0x80"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, mad.Status(tt.status).Text(tt.class))
	}
	assert.Equal(t, "class status 0x03", mad.Status(0x300).String())
	assert.Equal(t, "SA: no records", (&mad.Header{Class: mad.ClassSubnetAdmin, Status: 0x300}).StatusText())
}

// TestStrings checks the names of numbers, and the text for one without a name.
func TestStrings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		got  interface{ String() string }
		want string
	}{
		{mad.RejInvalidServiceID, "invalid service ID"}, {mad.RejReason(65535), "reject reason 65535"},
		{mad.RejConsumer, "consumer reject"}, {mad.RejReason(34), "reject reason 34"},
		{mad.APRInvalidSL, "invalid SL"}, {mad.APRStatus(14), "APR status 14"},
		{mad.SIDRNoQP, "no QP available"}, {mad.SIDRStatus(6), "SIDR status 6"},
		{mad.FailoverNotSupported, "not supported"}, {mad.Failover(3), "Failover(3)"},
		{mad.FailoverAccepted, "accepted"}, {mad.FailoverRejected, "rejected"},
		{mad.WhichREQ, "REQ"}, {mad.WhichREP, "REP"}, {mad.WhichLAP, "LAP or none"}, {mad.CMWhich(3), "CMWhich(3)"},
		{mad.ServiceRC, "RC"}, {mad.ServiceUC, "UC"}, {mad.ServiceRD, "RD"}, {mad.ServiceExtended, "extended"},
		{mad.TransportService(4), "TransportService(4)"},
		{mad.RMPPType(0), "none"}, {mad.RMPPData, "DATA"}, {mad.RMPPAck, "ACK"}, {mad.RMPPStop, "STOP"}, {mad.RMPPAbort,
			"ABORT"},
		{mad.RMPPType(5), "RMPPType(5)"}, {mad.RMPPBadLength, "inconsistent last and payload length"},
		{mad.RMPPStatus(200),
			"RMPP status 200"},
		{mad.PortSpaceUDP, "UDP"}, {mad.PortSpaceIB, "IB"}, {mad.PortSpaceTCP, "TCP"}, {mad.PortSpace(2),
			"PortSpace(0x0002)"},
	} {
		assert.Equal(t, tt.want, tt.got.String())
	}
	for r := mad.RejNoQP; r <= mad.RejAlternateFlowLabel; r++ {
		assert.NotContains(t, r.String(), "reject reason", "reason %d has no name", uint16(r))
	}
	for s := mad.APRLoaded; s <= mad.APRInvalidSL; s++ {
		assert.NotContains(t, s.String(), "APR status")
	}
	for s := mad.SIDRValid; s <= mad.SIDRUnsupportedVersion; s++ {
		assert.NotContains(t, s.String(), "SIDR status")
	}
	for s := mad.RMPPTotalTimeout; s <= mad.RMPPUnspecified; s++ {
		assert.NotContains(t, s.String(), "RMPP status")
	}
}
