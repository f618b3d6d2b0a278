package logstore

import (
	"context"
	"fmt"
	"log/slog"
)

// engineLogger passes the engine's messages on. Fatalf must not end the process:
// it marks the database dead, and the engine goes on over memory.
type engineLogger struct {
	to    *slog.Logger
	fault *fault
}

// Infof implements pebble.Logger.
func (l engineLogger) Infof(format string, args ...any) { l.log(slog.LevelDebug, format, args) }

// Errorf implements pebble.Logger.
func (l engineLogger) Errorf(format string, args ...any) { l.log(slog.LevelError, format, args) }

// Fatalf implements pebble.Logger.
func (l engineLogger) Fatalf(format string, args ...any) {
	l.fault.fail("engine", fmt.Errorf(format, args...))
	l.log(slog.LevelError, format, args)
}

func (l engineLogger) log(level slog.Level, format string, args []any) {
	if !l.to.Enabled(context.Background(), level) {
		return
	}
	l.to.Log(context.Background(), level, fmt.Sprintf(format, args...), "engine", "pebble")
}
