package kit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"ciddk/ci"
	"ciddk/validate"
)

// aliases are statuses that are accepted instead of the documented one, with a note. SAS, headers and IBTA have two
// names for these conditions: exhaustion of host or of HCA memory, a size that is out of range, an attribute that is
// out of range.
var aliases = map[ci.Status][]ci.Status{
	ci.InsufficientResources: {ci.InsufficientMemory},
	ci.InsufficientMemory:    {ci.InsufficientResources},
	ci.InvalidMaxWRs:         {ci.InvalidSetting},
	ci.InvalidMaxSGE:         {ci.InvalidSetting},
	ci.InvalidSetting:        {ci.InvalidMaxWRs, ci.InvalidMaxSGE},
	ci.InvalidParameter:      {ci.InvalidSetting},
	ci.InvalidSRQHandle:      {ci.InvalidQPHandle},
}

// Aliases returns the statuses other than s that Want accepts for s.
func Aliases(s ci.Status) []ci.Status { return slices.Clone(aliases[s]) }

// Describe describes an error for a finding: its status and the driver's text.
func Describe(err error) string {
	if err == nil {
		return "success"
	}
	s := ci.StatusOf(err)
	if e, ok := errors.AsType[*ci.Error](err); ok {
		return fmt.Sprintf("%s (%v)", s.String(), e)
	}
	if s == ci.UnknownError {
		return fmt.Sprintf("an error that wraps no ci.Status: %v", err)
	}
	return s.String()
}

// OK fails the case if err is not nil. It skips the case if the driver has rightly refused what exceeds its limits.
func OK(t *validate.T, err error, where string) {
	skipBeyond(t, err, where)
	if err != nil {
		t.Fail(validate.Failure{Where: where, Expected: "success", Got: Describe(err)})
	}
}

// skipBeyond skips the case if a driver has refused what exceeds its limits.
func skipBeyond(t *validate.T, err error, where string) {
	if beyond, ok := errors.AsType[*validate.LimitError](err); ok {
		t.Skip("%s: %s", where, beyond.Reason)
	}
}

// Want fails the case unless err has one of the statuses, or an alias of one.
func Want(t *validate.T, err error, where string, want ...ci.Status) {
	got := ci.StatusOf(err)
	if slices.Contains(want, got) {
		return
	}
	for _, w := range want {
		if slices.Contains(aliases[w], got) {
			t.Note("%s: %s for %s, an accepted alias", where, got.String(), w.String())
			return
		}
	}
	wrong(t, err, where, want)
}

// WantExactly is like Want but accepts no aliases.
func WantExactly(t *validate.T, err error, where string, want ...ci.Status) {
	if !slices.Contains(want, ci.StatusOf(err)) {
		wrong(t, err, where, want)
	}
}

func wrong(t *validate.T, err error, where string, want []ci.Status) {
	t.Fail(validate.Failure{Where: where, Expected: oneOf(want), Got: Describe(err)})
}

func oneOf[S fmt.Stringer](want []S) string {
	s := ""
	for i, w := range want {
		if i > 0 {
			s += " or "
		}
		s += w.String()
	}
	return s
}

// WantRefused fails the case unless a create verb has failed with one of the statuses and returned no object. If there
// is an object although err is nil, it is destroyed after the case.
func WantRefused(t *validate.T, obj ci.Object, err error, where string, want ...ci.Status) {
	v := reflect.ValueOf(obj)
	made := obj != nil && !(v.Kind() == reflect.Pointer && v.IsNil())
	if made && err == nil {
		t.Cleanup(func() { _ = obj.Destroy() })
	}
	Want(t, err, where, want...)
	if obj != nil {
		t.Fail(validate.Failure{
			Where: where, Expected: "no object beside the error",
			Got: fmt.Sprintf("%s and an object of type %T", Describe(err), ci.Innermost(obj)),
		})
	}
}

// Claim fails the case unless the result of an optional verb fits the claims: Unsupported if a bit is not claimed, any
// other result if all are.
func Claim(t *validate.T, bits ci.Caps, err error, where string) {
	claimed, unsupported := t.Claims().Has(bits), ci.StatusOf(err) == ci.Unsupported
	switch {
	case claimed && unsupported:
		t.Fail(validate.Failure{
			Where: where, Got: Describe(err),
			Expected: "a result other than Unsupported, since " + validate.CapNames(bits) + " is claimed",
		})
	case !claimed && !unsupported:
		t.Fail(validate.Failure{
			Where: where, Got: Describe(err),
			Expected: "Unsupported, since " + validate.CapNames(bits) + " is not claimed",
		})
	}
}

// Equal fails the case unless got is want.
func Equal[V comparable](t *validate.T, where string, got, want V) {
	if got != want {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("%v", want), Got: fmt.Sprintf("%v", got)})
	}
}

// AtLeast fails the case if got is less than want.
func AtLeast[V ~int | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](t *validate.T, where string, got, want V) {
	if got < want {
		t.Fail(validate.Failure{Where: where, Expected: fmt.Sprintf("at least %v", want), Got: fmt.Sprintf("%v", got)})
	}
}

// True fails the case if ok is false. expected describes the condition, and got with args what was found.
func True(t *validate.T, ok bool, where, expected, got string, args ...any) {
	if !ok {
		t.Fail(validate.Failure{Where: where, Expected: expected, Got: fmt.Sprintf(got, args...)})
	}
}

// SameBytes fails the case unless got is want. The failure names the first difference.
func SameBytes(t *validate.T, where string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fail(validate.Failure{
			Where: where, Expected: fmt.Sprintf("%d bytes", len(want)), Got: fmt.Sprintf("%d bytes", len(got)),
		})
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	n := 0
	for j := range got {
		if got[j] != want[j] {
			n++
		}
	}
	end := min(i+16, len(got))
	t.Fail(validate.Failure{
		Where:    fmt.Sprintf("%s, byte %d of %d", where, i, len(got)),
		Expected: fmt.Sprintf("% x", want[i:end]),
		Got:      fmt.Sprintf("% x (%d bytes differ)", got[i:end], n),
	})
}

// SameObject fails the case unless got and want are the same object (ci.Same).
func SameObject(t *validate.T, where string, got, want any) {
	if !ci.Same(got, want) {
		t.Fail(validate.Failure{
			Where: where, Expected: fmt.Sprintf("the object given at creation (%T)", ci.Innermost(want)),
			Got: fmt.Sprintf("%T, another object", ci.Innermost(got)),
		})
	}
}

// handleStatuses are the statuses of verbs on a destroyed object.
var handleStatuses = []ci.Status{
	ci.InvalidCAHandle, ci.InvalidAVHandle, ci.InvalidCQHandle, ci.InvalidQPHandle, ci.InvalidSRQHandle,
	ci.InvalidPDHandle, ci.InvalidMRHandle, ci.InvalidFMRHandle, ci.InvalidMWHandle, ci.InvalidMcastHandle,
	ci.InvalidHandle,
}

// Destroy destroys the object, and fails the case if that fails.
func Destroy(t *validate.T, obj ci.Object, what string) { OK(t, obj.Destroy(), what+".Destroy") }

// DestroyTwice destroys the object twice. The second Destroy must fail with the status.
func DestroyTwice(t *validate.T, obj ci.Object, what string, handle ci.Status) {
	Destroy(t, obj, what)
	Want(t, obj.Destroy(), "second "+what+".Destroy", handle)
}

// Own destroys the object when the case is over, and returns it. The case may destroy it before; the second Destroy
// then fails with the status of an invalid handle, which is correct. Any other error is a failure.
func Own[O ci.Object](t *validate.T, obj O, what string) O {
	t.Cleanup(func() {
		if err := obj.Destroy(); err != nil && !slices.Contains(handleStatuses, ci.StatusOf(err)) {
			t.Report(validate.Failure{
				Where: what + ".Destroy at the end of the case", Expected: "success", Got: Describe(err),
			})
		}
	})
	return obj
}

// created checks the result of a constructor's verb. A failure is marked Setup.
func created[O ci.Object](t *validate.T, obj O, err error, verb, what string) O {
	end := t.Setup()
	OK(t, err, verb)
	end()
	return Own(t, obj, what)
}

// setup checks a step of a constructor. A failure is marked Setup.
func setup(t *validate.T, err error, where string) {
	end := t.Setup()
	OK(t, err, where)
	end()
}
