<?php

// Takes 503 for a final failure. An outage of seconds loses every order that comes in it, and one that
// an earlier attempt carried out is charged although the customer was told that it failed.
final class NoRetryAfter503 extends Call
{
    protected function next(Answer $answer): Step
    {
        return $answer->status === 503 && !$this->following ? Step::Failed : parent::next($answer);
    }
}
