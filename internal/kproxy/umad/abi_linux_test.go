package umad

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/accesslayer/mads"
	"ciddk/ci"
)

// TestHeader checks the bytes of struct ib_user_mad_hdr: numbers of the host's order, then those of an address in
// network order (include/uapi/rdma/ib_user_mad.h).
func TestHeader(t *testing.T) {
	h := header{id: 1, status: 2, timeout: 3, retries: 4, length: 5, to: mads.Address{QPN: 0x060708, PKeyIndex: 0x2a2b}}
	h.to.AV = ci.AVAttr{DLID: 0x0910, SL: 11, PathBits: 12, Global: true, GRH: ci.GRH{SGIDIndex: 13, HopLimit: 14,
		TrafficClass: 15, DGID: ci.GID{16, 15: 31}, FlowLabel: 0x020304}}
	want := make([]byte, 0, sizeHeader)
	for _, n := range []uint32{1, 2, 3, 4, 5} {
		want = ne.AppendUint32(want, n)
	}
	want = append(want, 0, 6, 7, 8, 0, 0, 0, 0) // without the Q_Key
	want = append(want, 9, 0x10, 11, 12, 1, 13, 14, 15, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 0, 2, 3, 4)
	want = ne.AppendUint16(want, 0x2a2b)
	want = append(want, 0, 0, 0, 0, 0, 0)
	assert.Equal(t, want, h.encode(sizeHeader))
	assert.Equal(t, h, parseHeader(want))
	assert.Equal(t, want[:sizeHeaderOld], h.encode(sizeHeaderOld))
	h.to.PKeyIndex = 0
	assert.Equal(t, h, parseHeader(want[:sizeHeaderOld]), "programs that have not enabled P_Key indexes")
}
