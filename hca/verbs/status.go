package verbs

import (
	"cmp"
	"errors"
	"syscall"

	"ciddk/ci"
)

// statuses are the meanings of error numbers that do not depend on the verb.
var statuses = map[syscall.Errno]ci.Status{
	syscall.ENOMEM:     ci.InsufficientResources, // of the device, too, since it has no other number
	syscall.ENOSPC:     ci.InsufficientResources,
	syscall.EAGAIN:     ci.InsufficientResources,
	syscall.EMFILE:     ci.InsufficientResources,
	syscall.EBUSY:      ci.ResourceBusy,
	syscall.EPERM:      ci.InvalidPermission,
	syscall.EACCES:     ci.InvalidPermission,
	syscall.EOPNOTSUPP: ci.Unsupported,
	syscall.ENOSYS:     ci.Unsupported,
	syscall.EINVAL:     ci.InvalidParameter,
	syscall.EFAULT:     ci.InvalidParameter,
	syscall.ERANGE:     ci.InvalidParameter,
	syscall.ENOENT:     ci.InvalidParameter, // no such entry of a table
	syscall.ENODATA:    ci.InvalidParameter,
	syscall.ETIMEDOUT:  ci.Timeout,
	syscall.EINTR:      ci.Interrupted,
	syscall.ENODEV:     ci.InvalidState,
	syscall.EIO:        ci.InvalidState, // the device is gone, or was reset
}

// statusOf returns the status of a verb that the provider rejected. invalid is the meaning of EINVAL, if it is not
// InvalidParameter.
func statusOf(err error, invalid ci.Status) ci.Status {
	e, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return ci.UnknownError
	}
	if e == syscall.EINVAL && invalid != ci.Success {
		return invalid
	}
	return cmp.Or(statuses[e], ci.UnknownError)
}

// reject returns the error of a verb that the provider rejected.
func reject(verb string, err error, invalid ci.Status) error {
	return &ci.Error{Verb: verb, Status: statusOf(err, invalid), Detail: "the provider returned an error", Err: err}
}
