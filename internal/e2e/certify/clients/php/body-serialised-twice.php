<?php

// Encodes the body once to sign it and once, with other flags, to send it. An order with a slash or
// a letter beyond ASCII is refused with INVALID_SIGNATURE each time, and its customer never served.
final class BodySerialisedTwice extends Call
{
    protected function bodyToSign(): string
    {
        return json_encode($this->order->body);
    }

    protected function bodyToSend(): string
    {
        return json_encode($this->order->body, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    }
}
