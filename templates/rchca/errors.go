package rchca

import "ciddk/ci"

// fail returns a ci.Error.
func fail(verb string, s ci.Status, detail string) error {
	return &ci.Error{Verb: verb, Status: s, Detail: detail}
}

// commandError returns the error of a command that the hardware did not carry out.
func commandError(verb string, err error) error {
	return &ci.Error{Verb: verb, Status: ci.Timeout, Detail: "the adapter did not carry out the command", Err: err}
}
