package session

import (
	"pistore"
	"pistore/registers"
)

// Content is an entry that has no place yet.
type Content struct {
	ID         pistore.ID // the entry's to be
	Type       pistore.EntryType
	CustomType string       // exactly on custom content
	Payload    pistore.JSON // an object
	// Queued says that the content waits in a pending.entry register, which
	// goes when the content gets its place.
	Queued bool
}

// MessageContent is a message to be placed under an id.
func MessageContent(id pistore.ID, m Message) Content {
	return Content{ID: id, Type: pistore.TypeMessage, Payload: MessagePayload(m)}
}

// CustomContent is an application's entry to be placed under an id; data may be
// empty.
func CustomContent(id pistore.ID, customType string, data pistore.JSON) Content {
	return Content{ID: id, Type: pistore.TypeCustom, CustomType: customType, Payload: CustomPayload(data)}
}

// Place returns the writes that give content its place at the tail of a lane,
// under leaf and in order: the entries, the end of what was queued, and the
// leaf. They belong into one transaction, so that content has a register or an
// entry, never both and never neither.
func Place(lane string, leaf pistore.ID, contents ...Content) []pistore.Write {
	var entries, deletes []pistore.Write
	for _, c := range contents {
		entries = append(entries, pistore.InsertEntry{
			ID: c.ID, ParentID: leaf, Type: c.Type, CustomType: c.CustomType, Payload: c.Payload,
		})
		if c.Queued {
			deletes = append(deletes, pistore.DeleteRegister{Namespace: registers.PendingEntryNS, Key: string(c.ID)})
		}
		leaf = c.ID
	}
	if len(entries) == 0 {
		return nil
	}
	return append(append(entries, deletes...), pistore.SetRegister{
		Namespace: registers.LaneLeafNS, Key: lane, Value: registers.EncodeLaneLeaf(leaf),
	})
}

// Queue returns the write that makes content durable before it has a place; its
// id belongs into a queue in the same transaction. Content that no entry could
// be created with is ErrInvalid or ErrTooLarge: it would stay queued for ever.
func Queue(c Content) (pistore.Write, error) {
	if err := c.ID.Check(); err != nil {
		return nil, wrap("queue", err)
	}
	payload, err := pistore.CheckEntry(c.Type, c.CustomType, c.Payload)
	if err != nil {
		return nil, wrap("queue", err)
	}
	return pistore.SetRegister{
		Namespace: registers.PendingEntryNS, Key: string(c.ID),
		Value: registers.EncodePendingEntry(registers.PendingEntry{Type: c.Type, CustomType: c.CustomType, Payload: payload}),
	}, nil
}

// QueuedContent reads content from the pending.entry register that it waits in.
func QueuedContent(r pistore.Register) (Content, error) {
	p, err := registers.DecodePendingEntry(r.Value)
	if err != nil {
		return Content{}, wrap("queued content "+r.Key, err)
	}
	return Content{ID: pistore.ID(r.Key), Type: p.Type, CustomType: p.CustomType, Payload: p.Payload, Queued: true}, nil
}
