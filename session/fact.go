package session

import (
	"context"
	"iter"

	"pistore"
	"pistore/registers"
)

// Facts are statements about a session that commit at once and move no leaf.
// Unsetting one deletes it; to unset one that is not there writes nothing.

// Name returns the name of the session, and whether it has one.
func (s *Session) Name(ctx context.Context) (string, bool, error) {
	return s.textFact(ctx, registers.FactNameNS, "")
}

// SetName names the session.
func (s *Session) SetName(ctx context.Context, name string) error {
	return s.set(ctx, registers.FactNameNS, "", registers.EncodeText(name))
}

// UnsetName removes the name.
func (s *Session) UnsetName(ctx context.Context) error {
	return s.unset(ctx, registers.FactNameNS, "")
}

// Label returns the label of an entry, and whether it has one.
func (s *Session) Label(ctx context.Context, id pistore.ID) (string, bool, error) {
	return s.textFact(ctx, registers.FactLabelNS, string(id))
}

// SetLabel labels an entry; one that does not exist is ErrNotFound.
func (s *Session) SetLabel(ctx context.Context, id pistore.ID, label string) error {
	if err := s.hasEntry(ctx, id); err != nil {
		return wrap("set label", err)
	}
	return s.set(ctx, registers.FactLabelNS, string(id), registers.EncodeText(label))
}

// UnsetLabel removes the label of an entry.
func (s *Session) UnsetLabel(ctx context.Context, id pistore.ID) error {
	return s.unset(ctx, registers.FactLabelNS, string(id))
}

// Labels returns every label by entry.
func (s *Session) Labels(ctx context.Context) (map[pistore.ID]string, error) {
	labels := map[pistore.ID]string{}
	for r, err := range s.storage.RegistersByPrefix(ctx, registers.FactLabelNS, "") {
		if err != nil {
			return nil, wrap("labels", err)
		}
		text, err := registers.DecodeText(r.Value)
		if err != nil {
			return nil, s.corrupt(r.Namespace, r.Key, 21, err.Error())
		}
		labels[pistore.ID(r.Key)] = text
	}
	return labels, nil
}

// Fact returns an application's fact, and whether there is one; null is a value.
func (s *Session) Fact(ctx context.Context, key string) (pistore.JSON, bool, error) {
	return s.register(ctx, registers.FactCustomNS, key)
}

// SetFact states an application's fact, any JSON.
func (s *Session) SetFact(ctx context.Context, key string, value pistore.JSON) error {
	return s.set(ctx, registers.FactCustomNS, key, value)
}

// UnsetFact removes an application's fact.
func (s *Session) UnsetFact(ctx context.Context, key string) error {
	return s.unset(ctx, registers.FactCustomNS, key)
}

// Facts yields the application's facts whose key starts with prefix, by bytewise
// key order.
func (s *Session) Facts(ctx context.Context, prefix string) iter.Seq2[pistore.Register, error] {
	return s.storage.RegistersByPrefix(ctx, registers.FactCustomNS, prefix)
}

func (s *Session) textFact(ctx context.Context, namespace, key string) (string, bool, error) {
	value, there, err := s.register(ctx, namespace, key)
	if err != nil || !there {
		return "", false, err
	}
	text, err := registers.DecodeText(value)
	if err != nil {
		return "", false, s.corrupt(namespace, key, 21, err.Error())
	}
	return text, true, nil
}
