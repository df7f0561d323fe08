<?php

// Logs the whole order with each attempt, credentials included. Whoever can read the log can sign
// requests and spend the wallet.
final class SecretInLog extends Call
{
    protected function log(string $text): void
    {
        parent::log($text . ' ' . json_encode($this->order));
    }
}
