<?php

// Turns the price into paise by a float that it cuts off. 19.99 is booked as 19.98, and the books no
// longer agree with the wallet.
final class FloatingPoint extends Call
{
    protected function price(Answer $answer): string
    {
        $digits = parent::price($answer);
        $amount = (float) $digits;
        $paise = (int) ($amount * 100);
        return $digits === '' ? '' : sprintf('%d.%02d', intdiv($paise, 100), $paise % 100);
    }
}
