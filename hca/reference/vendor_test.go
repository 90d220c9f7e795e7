package reference

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/internal/testenv"
	"ciddk/link/direct"
	"ciddk/rvt"
)

// TestVendorCall checks the private commands of the driver.
func TestVendorCall(t *testing.T) {
	t.Parallel()
	h, err := New(Config{Ports: []rvt.Port{testenv.Must(direct.New(direct.NewLink(), direct.Config{}))}})
	require.NoError(t, err)
	ca, err := h.OpenCA(h.Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	pd, err := ca.AllocatePD(ci.PDNormal)
	require.NoError(t, err)
	cq, err := pd.CreateCQ(ci.CQCreate{Size: 1})
	require.NoError(t, err)
	qp, err := pd.CreateQP(ci.QPCreate{Type: ci.RC, SendCQ: cq, RecvCQ: cq})
	require.NoError(t, err)
	call := func(command uint32, size int, objects ...ci.Object) (string, error) {
		op := &ci.VendorOp{Command: command, Status: -1, Data: make([]byte, size)}
		err := ca.VendorCall(op, objects...)
		require.Equal(t, err == nil, op.Status == 0)
		return string(op.Data[:op.N]), err
	}
	text, err := call(VendorCounters, 1<<16)
	require.NoError(t, err)
	require.Contains(t, text, "cq_overflow 0\n")
	text, err = call(VendorDescription, 64)
	require.NoError(t, err)
	require.Equal(t, "ciddk reference HCA", text)
	text, err = call(VendorQPCounters, 1000, qp)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "accepted 0\nwrong_address 0\n"), text)
	for name, c := range map[string]struct {
		command uint32
		size    int
		objects []ci.Object
		want    ci.Status
	}{
		"unknown":             {9, 100, nil, ci.InvalidParameter},
		"short":               {VendorCounters, 10, nil, ci.InvalidParameter},
		"object for counters": {VendorCounters, 1 << 16, []ci.Object{cq}, ci.InvalidHandle},
		"no QP":               {VendorQPCounters, 1000, nil, ci.InvalidHandle},
		"a CQ":                {VendorQPCounters, 1000, []ci.Object{cq}, ci.InvalidHandle},
		"two":                 {VendorQPCounters, 1000, []ci.Object{qp, qp}, ci.InvalidHandle},
	} {
		_, err := call(c.command, c.size, c.objects...)
		require.ErrorIs(t, err, c.want, name)
	}
	require.NoError(t, qp.Destroy())
	_, err = call(VendorQPCounters, 1000, qp)
	require.ErrorIs(t, err, ci.InvalidHandle)
	for _, o := range []ci.Object{cq, pd, ca} {
		require.NoError(t, o.Destroy())
	}
	require.NoError(t, h.Close())
}
