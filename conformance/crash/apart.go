package crash

import (
	"errors"
	"fmt"
	"runtime/debug"

	"pistore/conformance"
)

// errBroken: the store did not return from a call, and ended the goroutine.
var errBroken = errors.New("the store broke its caller")

// adviceOnPanic is what there is to say about a store that panics, whatever the
// row is about.
const adviceOnPanic = "the stack above tells where; a store panics on nothing and ends no goroutine of its caller, it returns an error"

// panicked is the verdict on a panic that was recovered from.
func panicked(r any) verdict {
	return verdict{outcome: conformance.Fail, why: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()), advice: adviceOnPanic}
}

// apart runs a thing in a goroutine of its own. A panic there, and
// runtime.Goexit, is the store's as a rule; either is an error.
func apart(run func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%w: runtime.Goexit was called", errBroken) // unless run returns
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("%w: panic: %v\n%s", errBroken, r, debug.Stack())
			}
			ended <- err
		}()
		err = run()
	}()
	return ended
}
