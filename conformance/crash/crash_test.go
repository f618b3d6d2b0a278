package crash

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	Child(store(defect(os.Getenv(defectEnv))))
	os.Exit(m.Run())
}

func TestSoundStore(t *testing.T) {
	Run(t, Config{Open: store(sound), OpenOn: store(sound)})
}
