package model

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"ciddk/internal/mlx4/prm"
)

// TestRequestAfterEntryTaken arms a queue between the moment at which an entry becomes visible and the decision on its
// event. A driver that has taken the entry gets no event for it, since one that waits for an event and takes one
// completion each time would fall behind.
func TestRequestAfterEntryTaken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                 string
		command              uint8
		producer, solicited  uint32 // before the queue is armed
		consumer             uint32
		isDue                bool // at once
		arrives, isSolicited bool // afterwards
		want                 uint8
	}{
		{"taken", prm.ArmAny, 5, 0, 5, false, false, false, prm.ArmAny},
		{"taken, solicited", prm.ArmAny, 5, 5, 5, false, false, true, prm.ArmAny},
		{"taken, for solicited ones", prm.ArmSolicited, 5, 5, 5, false, false, true, prm.ArmSolicited},
		{"not taken", prm.ArmAny, 5, 0, 4, true, false, false, 0},
		{"not taken, not solicited", prm.ArmSolicited, 5, 4, 4, false, false, false, prm.ArmSolicited},
		{"not taken, solicited", prm.ArmSolicited, 5, 5, 4, true, false, false, 0},
		{"next", prm.ArmAny, 5, 0, 5, false, true, false, 0},
		{"next is not solicited", prm.ArmSolicited, 5, 0, 5, false, true, false, prm.ArmSolicited},
		{"next is solicited", prm.ArmSolicited, 5, 0, 5, false, true, true, 0},
		{"next, with a long overrun", prm.ArmAny, 500, 0, 5, true, true, false, 0},
		{"index wraps", prm.ArmAny, 1 << 24, 0, indexMask, true, false, false, 0},
		{"index wraps, taken", prm.ArmAny, 1 << 24, 0, 0, false, false, false, prm.ArmAny},
		{"no such command", 3, 5, 5, 4, true, true, true, 0},
	} {
		q := &cq{m: &Model{}, log: 4, producer: tt.producer, solicited: tt.solicited}
		q.request(tt.command, 0, tt.consumer)
		assert.Equal(t, tt.isDue, q.armed == 0, "%s: at once", tt.name)
		if tt.arrives {
			q.producer++
		}
		if !tt.isDue {
			q.Fires(tt.isSolicited)
		}
		assert.Equal(t, tt.want, q.armed, tt.name)
	}
}

// TestRequestRepeated repeats a doorbell after its event: a driver that has not seen the event gets no second one.
func TestRequestRepeated(t *testing.T) {
	t.Parallel()
	q := &cq{m: &Model{}, log: 4, producer: 5}
	q.request(prm.ArmSolicited, 0, 5)
	q.request(prm.ArmAny, 0, 5) // before the event, it may arm in another way
	q.producer++
	q.Fires(false)
	assert.Zero(t, q.armed)
	q.producer++
	q.request(prm.ArmAny, 0, 5)
	assert.Zero(t, q.armed, "repeated")
	q.request(prm.ArmAny, 1, 7)
	assert.Equal(t, uint8(prm.ArmAny), q.armed, "the next one")
}
