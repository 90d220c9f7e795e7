package through

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer"
	"ciddk/ci"
	"ciddk/hca/reference"
	"ciddk/link/direct"
	"ciddk/rvt"
	"ciddk/validate"
)

// adapters returns a target of one HCA, which the caller closes.
func adapters(t *testing.T) *validate.Target {
	port, err := direct.New(direct.NewLink(), direct.Config{})
	require.NoError(t, err)
	h, err := reference.New(reference.Config{Ports: []rvt.Port{port}})
	require.NoError(t, err)
	return &validate.Target{HCAs: []ci.HCA{h}, Close: func(context.Context) error { return h.Close() }}
}

// TestAccessLayerTarget checks what the layer accesslayer tests beside the verbs: objects that the access layer keeps
// are counted, and missing or extra PnP events are an error of Close.
func TestAccessLayerTarget(t *testing.T) {
	open := func() *validate.Target {
		target, err := AccessLayer(validate.Driver{
			Open: func(context.Context, validate.Options) (*validate.Target, error) { return adapters(t), nil },
		}).Open(t.Context(), validate.Options{})
		require.NoError(t, err)
		return target
	}
	target := open()
	assert.Empty(t, target.Live())
	ca, err := target.HCAs[0].OpenCA(target.HCAs[0].Info().GUID, func(ci.Event) {}, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"access layer's CA": 1}, target.Live())
	require.NoError(t, ca.Destroy())
	assert.Empty(t, target.Live())
	require.NoError(t, target.Close(t.Context()))

	plain := adapters(t)
	al := accesslayer.New(accesslayer.Config{Logger: slog.New(slog.DiscardHandler)})
	closeAdapter := plain.Close
	plain.Close = func(ctx context.Context) error { return errors.Join(al.Close(), closeAdapter(ctx)) }
	require.NoError(t, al.Register(plain.HCAs[0]))
	require.NoError(t, watchPnP(plain, al))
	require.NoError(t, al.Deregister(plain.HCAs[0].Info().GUID))
	require.NoError(t, al.Register(plain.HCAs[0]))
	require.NoError(t, al.WaitPnP(t.Context()))
	assert.ErrorContains(t, plain.Close(t.Context()), "[2 2 2 2], want [1 1 1 1]")
}
