package userlib

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/ci"
	"ciddk/templates/rchca/userabi"
)

// TestCreate calls the hooks of a CQ as the user access layer does, with every result that the driver may have.
func TestCreate(t *testing.T) {
	l := New()
	answered := func(ub *ci.UserBuffer) { ub.Status, ub.Out = 0, userabi.Answer{Number: 5}.Encode() }
	for name, x := range map[string]struct {
		driver  func(*ci.UserBuffer)
		failed  error
		hasOwn  bool
		wantErr error
	}{
		"the driver answers":           {driver: answered, hasOwn: true},
		"the verb fails":               {driver: func(*ci.UserBuffer) {}, failed: ci.InsufficientResources},
		"the driver does not answer":   {driver: func(*ci.UserBuffer) {}},
		"the answer is not understood": {driver: func(ub *ci.UserBuffer) { ub.Status = 0 }, wantErr: ci.UnknownError},
	} {
		t.Run(name, func(t *testing.T) {
			a, ub := &ci.UserCreateCQ{PD: &pd{ca: &ca{}}, Create: ci.CQCreate{Size: 7}}, new(ci.UserBuffer)
			require.NoError(t, l.CreateCQ.Pre(a, ub))
			assert.NotZero(t, ub.Status, "a failure is preset")
			var r userabi.Request
			require.NoError(t, r.Decode(ub.In))
			assert.GreaterOrEqual(t, cap(ub.Out), userabi.AnswerSize)
			x.driver(ub)
			a.Granted = 8
			err := l.CreateCQ.Post(a, ub, x.failed)
			if x.wantErr == nil {
				assert.NoError(t, err, "the application receives the error of the verb anyway")
			} else {
				assert.ErrorIs(t, err, x.wantErr)
			}
			q, ok := a.CQ.Handle.(*cq)
			require.Equal(t, x.hasOwn, ok)
			if ok {
				assert.EqualValues(t, 5, q.number)
				query := &ci.UserQueryCQ{CQ: q}
				assert.ErrorIs(t, l.QueryCQ.Pre(query, nil), ci.VerbsProcessingDone)
				assert.Equal(t, 8, query.Attr.Size)
				l.DestroyCQ.Post(&ci.UserDestroyCQ{CQ: q}, nil, ci.ResourceBusy)
				assert.ErrorIs(t, l.QueryCQ.Pre(query, nil), ci.VerbsProcessingDone, "it still exists")
				l.DestroyCQ.Post(&ci.UserDestroyCQ{CQ: q}, nil, nil)
				assert.NoError(t, l.QueryCQ.Pre(query, nil), "the proxy rejects the verb")
			}
		})
	}
}
