package mad

import (
	"errors"
	"fmt"
)

// Kinds of errors. Functions that validate or parse return an *Error that wraps one of these; test for them with
// errors.Is.
var (
	ErrLength    = errors.New("wrong length")
	ErrVersion   = errors.New("unknown version")
	ErrClass     = errors.New("wrong management class")
	ErrMethod    = errors.New("wrong method for the class")
	ErrAttribute = errors.New("unknown attribute")
	ErrRange     = errors.New("value does not fit the field")
	ErrReserved  = errors.New("reserved bits not zero")
	ErrAddress   = errors.New("invalid address")
)

// Error is an invalid field of a layout.
type Error struct {
	Kind   error  // one of the Err… values
	Layout string // the structure, such as "REQ" or "PathRecord"
	Field  string // the Go field, with its path in nested structures, such as "Primary.FlowLabel"
	Detail string // the value, and the limit or the expected value
}

func (e *Error) Error() string {
	return "mad: " + e.Layout + " " + e.Field + ": " + e.Kind.Error() + ": " + e.Detail
}

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

func errorf(kind error, layout, field, format string, args ...any) error {
	return &Error{Kind: kind, Layout: layout, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// checker records the first error that a Check method finds.
type checker struct {
	layout string
	err    error
}

func (c *checker) fail(kind error, field, format string, args ...any) {
	if c.err == nil {
		c.err = errorf(kind, c.layout, field, format, args...)
	}
}

// fits records an error if v has more bits.
func (c *checker) fits(field string, v uint64, bits int) {
	if v>>bits != 0 {
		c.fail(ErrRange, field, "%#x has more than %d bits", v, bits)
	}
}

// within records an error unless low <= v <= high.
func (c *checker) within(field string, v, low, high uint64) {
	if v < low || v > high {
		c.fail(ErrRange, field, "%d, want %d to %d", v, low, high)
	}
}

// zero records an error if reserved bits are not zero.
func (c *checker) zero(field string, v uint64) {
	if v != 0 {
		c.fail(ErrReserved, field, "%#x", v)
	}
}
