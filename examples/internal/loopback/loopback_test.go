package loopback

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOpen opens with addresses in use.
func TestOpen(t *testing.T) {
	for _, x := range []struct{ name, at, inUse, lacks, got, text string }{
		{name: "free", got: "127.0.0.1"},
		{name: "in use", inUse: "127.0.0.1 127.0.0.2", got: "127.0.0.3"},
		{name: "named", at: "127.0.0.9", got: "127.0.0.9"},
		{name: "named and in use", at: "127.0.0.9", inUse: "127.0.0.9", text: "127.0.0.9: address already in use"},
		{name: "one address", inUse: "127.0.0.1", lacks: "127.0.0.2", text: "127.0.0.1: address already in use"},
		{name: "another error", lacks: "127.0.0.1", text: "127.0.0.1: EOF"},
		{name: "all in use", inUse: "127.", text: "127.0.0.1: address already in use"},
	} {
		t.Run(x.name, func(t *testing.T) {
			var at netip.Addr
			if x.at != "" {
				at = netip.MustParseAddr(x.at)
			}
			_, got, err := Open(at, First, func(a netip.Addr) (any, error) {
				for in := range strings.FieldsSeq(x.inUse) {
					if strings.HasPrefix(a.String(), in) {
						return nil, fmt.Errorf("%v: %w", a, syscall.EADDRINUSE)
					}
				}
				if a.String() == x.lacks {
					return nil, fmt.Errorf("%v: %w", a, io.EOF)
				}
				return nil, nil
			})
			if x.text != "" {
				assert.EqualError(t, err, x.text)
				return
			}
			assert.NoError(t, err)
			assert.Equal(t, x.got, got.String())
		})
	}
}
