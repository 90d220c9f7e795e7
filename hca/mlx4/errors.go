package mlx4

import (
	"errors"

	"ciddk/ci"
	"ciddk/internal/mlx4/fw"
)

// undo is a list of functions that take steps of a verb back, if the verb fails.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

// run takes all steps back, the last one first, if the verb has failed.
func (u *undo) run(err *error) {
	if *err == nil {
		return
	}
	for i := range *u {
		(*u)[len(*u)-1-i]()
	}
}

// fail returns a ci.Error.
func fail(verb string, s ci.Status, detail string) *ci.Error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// firmwareError returns the error of a verb whose command has failed.
func firmwareError(verb string, err error) error {
	if errors.Is(err, fw.ErrFailed) || errors.Is(err, fw.ErrClosed) {
		return &ci.Error{Verb: verb, Status: ci.InvalidState, Detail: "the adapter has failed", Err: err}
	}
	s := ci.StatusOf(err)
	if s == ci.UnknownError || s == ci.Success {
		s = ci.ErrorStatus
	}
	return &ci.Error{Verb: verb, Status: s, Err: err}
}
