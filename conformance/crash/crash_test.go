package crash

import (
	"os"
	"testing"
)

// forgetful is the defect of a program that does not call Child.
const forgetful = "calls no Child"

func TestMain(m *testing.M) {
	if os.Getenv(defectEnv) != forgetful {
		Child(store(defect(os.Getenv(defectEnv))))
	}
	os.Exit(m.Run())
}

func TestSoundStore(t *testing.T) {
	Run(t, Config{Open: store(sound), OpenOn: store(sound)})
}
