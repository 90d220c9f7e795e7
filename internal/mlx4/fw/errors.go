package fw

import (
	"errors"
	"fmt"

	"ciddk/ci"
	"ciddk/internal/mlx4/prm"
)

// failure is a sentinel error with a status of the verbs.
type failure struct {
	text   string
	status ci.Status
}

func (f *failure) Error() string { return f.text }

// Unwrap returns the status, for ci.StatusOf.
func (f *failure) Unwrap() error { return f.status }

// Errors of devices. ci.StatusOf returns a status for each.
var (
	// ErrFailed is the error of a device that has failed, or whose function has gone. Device.Err has the cause.
	ErrFailed error = &failure{"fw: the device has failed", ci.ErrorStatus}
	// ErrClosed is the error after Close.
	ErrClosed error = &failure{"fw: the device is closed", ci.InvalidCAHandle}
	// ErrOwned is the error of Open if another driver owns the adapter.
	ErrOwned error = &failure{"fw: another driver owns the adapter", ci.ResourceBusy}
	// ErrExhausted is the error if all numbers of a kind, or all memory, are in use.
	ErrExhausted error = &failure{"fw: exhausted", ci.InsufficientResources}
	// ErrInvalid is the error of an argument that is out of range.
	ErrInvalid error = &failure{"fw: invalid argument", ci.InvalidParameter}
)

// Causes of a failed device.
var (
	errStuck = errors.New("a command did not complete in time")
	errBusy  = errors.New("the command register is busy for too long")
	errReset = errors.New("the adapter was reset, and not by its driver")
)

// A CommandError is a command that the firmware rejected.
type CommandError struct {
	Op     prm.Opcode
	Status prm.Status
}

// Error returns the command and the status.
func (e *CommandError) Error() string { return fmt.Sprintf("fw: %v: %v", e.Op, e.Status) }

// Unwrap returns CI, for ci.StatusOf and errors.Is.
func (e *CommandError) Unwrap() error { return e.CI() }

// CI returns the status of the verbs that corresponds to that of the firmware.
func (e *CommandError) CI() ci.Status {
	if s, ok := statuses[e.Status]; ok {
		return s
	}
	return ci.ErrorStatus
}

// statuses maps results of commands. Others are ci.ErrorStatus.
var statuses = map[prm.Status]ci.Status{
	prm.BadOp:        ci.Unsupported,
	prm.BadParam:     ci.InvalidParameter,
	prm.BadSysState:  ci.InvalidState,
	prm.BadResource:  ci.InvalidHandle,
	prm.ResourceBusy: ci.ResourceBusy,
	prm.ExceedLim:    ci.InsufficientResources,
	prm.BadResState:  ci.InvalidState,
	prm.BadIndex:     ci.InvalidIndex,
	prm.ICMError:     ci.InsufficientResources,
	prm.BadQPState:   ci.InvalidQPState,
	prm.BadSegParam:  ci.InvalidParameter,
	prm.RegBound:     ci.ResourceBusy,
	prm.LAMNotPre:    ci.InsufficientMemory,
	prm.BadPkt:       ci.InvalidParameter,
	prm.BadSize:      ci.InsufficientResources,
}
